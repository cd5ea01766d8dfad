import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/error.ts'
import type { ProtocolName } from '../../src/generation/request.ts'
import { bodyText } from '../../src/http/encode-request.ts'
import { spliceBytes } from '../../src/json/splice-bytes.ts'
import { protocols } from '../../src/protocols/index.ts'
import type { RawRequest, Target, TranslationContext } from '../../src/protocols/protocol.ts'
import { readRawRequest } from '../../src/protocols/raw-request.ts'
import { LossReport } from '../../src/protocols/translation.ts'
import { leaveUnread } from '../../src/protocols/unread-request.ts'
import type { Endpoint } from '../../src/providers/catalogue.ts'
import { READING, received } from '../json/limits.ts'
import { prepared } from '../translating.ts'
import { haveSchemas, unknownValues } from './schema-walk.ts'

/** Values that Sluice does not know, one in each member of the requests that the vendors document. */

type Json = Record<string, unknown>

const TARGET: Target = { provider: 'p', model: 'theirs', quirks: {}, capabilities: {} }
const IDENTITY = { id: 'ours', model: 'a/b', createdAt: 1 }

/** Members that Sluice sets in every request. */
const OWN_MEMBERS = ['model', 'stream', 'stream_options', 'store', 'include', 'previous_response_id', 'response_format']

/**
 * Facts about an earlier response that mean nothing to a model, the kind of a location, and breakpoints of a prompt
 * without a cache.
 */
const HARMLESS =
  /\.logprobs|\.status$|user_location|prompt_cache_breakpoint|^input\[0\]\.(role|id|x_unknown)$|media_type$/

/** `needed`: the members that Sluice needs itself, so that it refuses wrong values of them. */
const HELLO: { protocol: ProtocolName; files: string[]; base: Json; needed: RegExp }[] = [
  {
    protocol: 'chat.completions',
    files: ['openai-chat'],
    base: { model: 'a/b', messages: [{ role: 'user', content: 'Hi' }] },
    needed: /^(model|stream|n)$/,
  },
  {
    protocol: 'responses',
    files: ['openai-responses', 'openresponses'],
    base: { model: 'a/b', input: 'Hi' },
    needed: /^(model|stream|store|background|previous_response_id)$|^input\[0\]$|^input\[0\]\.id$/,
  },
  {
    protocol: 'messages',
    files: ['anthropic-messages', 'anthropic-messages-beta'],
    base: { model: 'a/b', max_tokens: 5, messages: [{ role: 'user', content: 'Hi' }] },
    needed: /^(model|stream|thread)$/,
  },
  {
    protocol: 'generateContent',
    files: ['google-generate-content', 'vertex-generate-content'],
    base: { contents: [{ parts: [{ text: 'Hi' }] }] },
    needed: /^generationConfig\.candidateCount$/,
  },
  {
    protocol: 'images',
    files: ['openai-images'],
    base: { model: 'a/b', prompt: 'A cat' },
    needed: /^(model|stream|n|response_format)$/,
  },
]

const rawRequestOf = (body: Json): Promise<RawRequest> =>
  readRawRequest(
    READING,
    received(new Request('http://host/', { method: 'POST', body: JSON.stringify(body) })),
    'contents' in body ? { model: 'a/b', stream: false } : undefined,
  )

const pathText = (path: readonly (string | number)[]): string =>
  path.map((step, index) => (typeof step === 'number' ? `[${step}]` : index === 0 ? step : `.${step}`)).join('')

const without = (body: Json, own: readonly string[]): Json =>
  Object.fromEntries(Object.entries(body).filter(([name]) => !own.includes(name)))

/** The bodies for a provider of the same protocol, without being read and as it was read. */
async function sentBodies(protocol: ProtocolName, body: Json): Promise<Json[]> {
  const { serve, call } = protocols[protocol]
  const rawRequest = await rawRequestOf(body)
  const unread = leaveUnread(rawRequest, serve)
  const sent =
    unread === undefined
      ? []
      : [
          bodyText(
            spliceBytes(
              rawRequest.scanned!.bytes,
              rawRequest.scanned!.scan.members,
              call.memberChanges!(unread.settings, TARGET),
            ),
          ),
        ]
  const context = { rawRequest, request: serve.readRequest(rawRequest), responseIdentity: IDENTITY }
  return [...sent, call.forward(context, TARGET, new LossReport())].map((text) => JSON.parse(text) as Json)
}

function translated(
  at: string,
  context: TranslationContext,
  provider: ProtocolName,
): 'carried' | 'reported' | 'refused' | 'lost' {
  const endpoint = { protocol: provider, baseUrl: '', target: TARGET } as unknown as Endpoint
  try {
    const { body, losses } = prepared(endpoint, context)
    if (losses.length > 0) return 'reported'
    // Each unknown value has this word.
    return body.includes('unknown') || at === 'model' || HARMLESS.test(at) ? 'carried' : 'lost'
  } catch (error) {
    if (!(error instanceof GatewayError) || ![400, 404].includes(error.status) || error.param === undefined) throw error
    return 'refused'
  }
}

describe.skipIf(!haveSchemas)('a value that is not known here', () => {
  for (const { protocol, files, base, needed } of HELLO)
    test(`of ${protocol} is sent to a provider of the same protocol, and translated or refused elsewhere`, async () => {
      let walked = 0
      const refused = new Set<string>()
      const lost = new Set<string>()
      const outcomes: Record<string, number> = { carried: 0, reported: 0, refused: 0 }
      for (const file of files)
        for (const { path, body } of unknownValues(file, base)) {
          const at = pathText(path)
          walked++
          let sent: Json[]
          try {
            sent = await sentBodies(protocol, body)
          } catch (error) {
            if (!(error instanceof GatewayError) || error.status >= 500)
              throw new Error(`${at}: ${String(error)}`, { cause: error })
            refused.add(error.param!)
            continue
          }
          const own = OWN_MEMBERS.filter((name) => name !== path[0] || name === 'model')
          for (const one of sent) expect([at, without(one, own)]).toEqual([at, without(body, own)])
          const rawRequest = await rawRequestOf(body)
          const request = protocols[protocol].serve.readRequest(rawRequest)
          for (const provider of Object.keys(protocols) as ProtocolName[])
            if (provider !== protocol) {
              const outcome = translated(at, { rawRequest, request, responseIdentity: IDENTITY }, provider)
              if (outcome === 'lost') lost.add(`${at} for ${provider}`)
              else outcomes[outcome]!++
            }
        }
      console.log(`${protocol}: ${walked} members; translated: ${JSON.stringify(outcomes)}`)
      expect([...lost]).toEqual([])
      expect([...refused].filter((at) => !needed.test(at))).toEqual([])
      expect(walked).toBeGreaterThan(10)
    })
})
