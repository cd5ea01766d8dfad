/**
 * A process of its own, which remembers many conversations as a server does that translates them, and prints for each
 * byte of theirs the memory that it takes and the memory that is counted.
 */
import { randomBytes } from 'node:crypto'
import { scanBody, type BodyScan } from '../../src/json/body-scan.ts'
import { ConversationMemory } from '../../src/protocols/conversation-memory.ts'
import { protocols } from '../../src/protocols/index.ts'
import { rawRequestOf } from '../../src/protocols/raw-request.ts'
import { SchemaCache } from '../../src/protocols/schema/cache.ts'
import { prepare } from '../../src/providers/attempt.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import { LIMITS } from '../json/limits.ts'

const TOTAL_BYTES = 10e6
const COLLECTED_BYTES = 300_000
const length = Number(process.argv[2])

/** A text of its own each time. */
const words = (characters: number): string => randomBytes(characters).toString('base64url').slice(0, characters)

/** An agent that reads files. */
const round = (id: string): object[] => [
  {
    role: 'assistant',
    content: words(60),
    tool_calls: [{ id, type: 'function', function: { name: 'read', arguments: JSON.stringify({ path: words(30) }) } }],
  },
  { role: 'tool', tool_call_id: id, content: words(1_500) },
]

const conversation = (): object[] => [
  { role: 'system', content: words(500) },
  { role: 'user', content: words(50) },
  ...Array.from({ length: Math.ceil(length / 1_800) }, (_, index) => round(`call_${index}`)).flat(),
]

const memory = new ConversationMemory(Infinity)
const schemas = new SchemaCache()
const target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }
const endpoint = { protocol: 'messages', baseUrl: '', target } as unknown as Endpoint

function send(messages: readonly object[]): number {
  const bytes = Buffer.from(JSON.stringify({ model: 'm', max_tokens: 5, messages }))
  const scan = scanBody(bytes, LIMITS) as BodyScan
  const rawRequest = rawRequestOf({ bytes, scan, maxDepth: LIMITS.depth }, new Headers(), undefined, (scanned) =>
    memory.parse('a', scanned),
  )
  const request = protocols['chat.completions'].serve.readRequest(rawRequest)
  const responseIdentity = { id: 'i', model: 'm', createdAt: 1 }
  prepare(endpoint, { rawRequest, request, responseIdentity }, schemas)
  return bytes.length
}

/** Three turns of a conversation. */
function remember(): number {
  const messages = conversation()
  send(messages.slice(0, -4))
  send(messages.slice(0, -2))
  return send(messages)
}

/** The allocator gives memory back within a second. */
async function residentBytes(): Promise<number> {
  for (let last = Infinity; ; await Bun.sleep(1_200)) {
    Bun.gc(true)
    const { rss } = process.memoryUsage()
    if (rss >= 0.99 * last) return rss
    last = rss
  }
}

for (let i = 0; i < 3; i++) remember()
const [before, countedBefore] = [await residentBytes(), memory.bytes]
let [bytes, collectedAt] = [0, 0]
while (bytes < TOTAL_BYTES) {
  bytes += remember()
  // Memory that garbage took once is not given back.
  if (bytes - collectedAt < COLLECTED_BYTES) continue
  Bun.gc(true)
  collectedAt = bytes
}
const after = await residentBytes()
console.log(JSON.stringify({ taken: (after - before) / bytes, counted: (memory.bytes - countedBefore) / bytes }))
process.exit()
