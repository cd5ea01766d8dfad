import { expect, test } from 'bun:test'
import { MediaMemory } from '../../src/pipeline/media-memory.ts'

const ALL = 256 * 2 ** 20

test('requests that would hold more media than fits are refused as overloaded until others release theirs', () => {
  const memory = new MediaMemory()
  const [first, second] = [memory.lease(), memory.lease()]
  first.add(ALL - 10)
  second.add(10)
  expect(() => second.add(1)).toThrow('The memory for media is full')
  first.release()
  second.add(ALL - 10)
})

test('a released lease holds nothing, also of what is added later', () => {
  const memory = new MediaMemory()
  const lease = memory.lease()
  lease.add(100)
  lease.release()
  lease.release()
  lease.add(100)
  expect(memory.freeBytes).toBe(ALL)
})

test('two gateways in one process share no memory for media', () => {
  new MediaMemory().lease().add(ALL)
  expect(new MediaMemory().freeBytes).toBe(ALL)
})
