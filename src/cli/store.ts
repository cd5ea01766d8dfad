import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { backUp } from '../store/sqlite/backup.ts'
import type { Given } from './command.ts'
import { configOf } from './serve.ts'

export async function backUpStore(given: Given, target: string): Promise<void> {
  const { data } = configOf(given)
  if (!existsSync(data)) throw new Error(`the data folder ${data} does not exist`)
  const folder = resolve(target)
  await backUp(data, folder)
  if (given.on('json')) return console.log(JSON.stringify({ data, backup: folder }))
  console.log(`${data} is backed up in ${folder}; sluice ledger audit --data ${folder} checks the copy`)
}
