import { expect, test } from 'bun:test'
import { Tries } from '../../src/accounts/tries.ts'

const refused = (tries: Tries, ...names: string[]): boolean => {
  try {
    tries.begin(names)
    return false
  } catch {
    return true
  }
}

test('names that one address makes up do not push out the counts of others', () => {
  const tries = new Tries(() => 0)
  for (let count = 0; count < 10; count++) tries.begin(['name ann', 'address 1'])
  for (let count = 0; count < 60_000; count++) refused(tries, `name ${count}`, 'address 1')
  expect(refused(tries, 'name ann', 'address 2')).toBe(true)
})

test('right passwords are taken back, also where several are compared at once', () => {
  const tries = new Tries(() => 0)
  for (let round = 0; round < 10; round++)
    for (const takeBack of [tries.begin(['name ann']), tries.begin(['name ann'])]) takeBack()
  expect(refused(tries, 'name ann')).toBe(false)
})
