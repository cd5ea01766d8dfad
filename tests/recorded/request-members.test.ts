import { expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GatewayError } from '../../src/error.ts'
import type { ConversationName } from '../../src/generation/request.ts'
import { protocols } from '../../src/protocols/index.ts'
import { SchemaCache } from '../../src/protocols/schema/cache.ts'
import type { Loss } from '../../src/protocols/translation.ts'
import { prepare } from '../../src/providers/attempt.ts'
import { CLIENTS, SILENT, type Client } from './client-members.ts'
import { RequestMembers, type Json, type Member } from './request-members.ts'

/**
 * Every member of the request schemas that the vendors publish is carried, reported or refused on every route to a
 * provider of another protocol. The schemas are kept outside the repository: the tests are skipped where they are
 * absent.
 */

const FOLDER = join(import.meta.dir, '../../../shared/specs/schemas')
const NAMES = Object.keys(CLIENTS) as ConversationName[]
const haveSchemas = NAMES.every((name) => existsSync(join(FOLDER, CLIENTS[name].file)))

type Translated = { body: string; losses: readonly Loss[] } | { refused: string; message: string }

function translate(client: ConversationName, provider: ConversationName, body: Json): Translated {
  const rawRequest = { body, text: JSON.stringify(body), model: 'a/b', stream: false, headers: new Headers() }
  const responseIdentity = { id: 'x', model: 'a/b', createdAt: 1 }
  const target = { provider: 'p', model: 'm', quirks: {}, capabilities: {} }
  try {
    const request = protocols[client].serve.readRequest(rawRequest)
    const endpoint = { protocol: provider, baseUrl: '', target } as unknown as Parameters<typeof prepare>[0]
    const prepared = prepare(endpoint, { rawRequest, request, responseIdentity }, new SchemaCache())
    return { body: String(prepared.body), losses: prepared.losses.losses }
  } catch (error) {
    if (error instanceof GatewayError) return { refused: error.param ?? '', message: error.message }
    throw error
  }
}

const isWithin = (path: string, outer: string): boolean =>
  path === outer || (path.startsWith(outer) && '.['.includes(path[outer.length]!))

type Treatment = 'carried' | 'reported' | 'refused' | 'dropped in silence' | `refused elsewhere: ${string}`

function treatmentOf({ path, request, base }: Member, client: ConversationName, provider: ConversationName): Treatment {
  const translated = translate(client, provider, request)
  if ('refused' in translated) {
    const { refused, message } = translated
    return isWithin(path, refused) || isWithin(refused, path) ? 'refused' : `refused elsewhere: ${message}`
  }
  const { losses, body } = translated
  const isReported = losses.some(
    ({ path: lost, effect, code }) =>
      isWithin(lost, path) || ((effect === 'dropped' || code === 'content_as_text') && isWithin(path, lost)),
  )
  if (isReported) return 'reported'
  const before = translate(client, provider, base)
  if ('refused' in before || body !== before.body) return 'carried'
  return losses.length > before.losses.length ? 'reported' : 'dropped in silence'
}

/** The members of a request schema, in conversations that a provider accepts. */
function membersOf({ file, conversation, minimal, before, result, ...hints }: Client): Member[] {
  const schema = JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as Json
  const walker = new RequestMembers(schema.$defs, hints)
  const build = (value: unknown): Json => {
    const { tools = [], [conversation]: turns = [], ...settings } = value as Json
    // A walked result takes the place of the one that the call before it has.
    const isResult = JSON.stringify(turns).includes('"call_1"')
    return {
      ...minimal,
      ...settings,
      tools: [...minimal.tools, ...tools],
      [conversation]: typeof turns === 'string' ? turns : [...before, ...(isResult ? [] : [result]), ...turns],
    }
  }
  walker.walk({ $ref: schema.roots.request }, { path: '', build, definitions: [] })
  return walker.members.map((member) => {
    const turns = member.request[conversation]
    const path = member.path
      .replace(`${conversation}[0]`, `${conversation}[${turns.length - 1}]`)
      .replace(/^tools\[0\]/, `tools[${minimal.tools.length}]`)
    return { ...member, path }
  })
}

/** `false`, an empty text and an empty object request nothing. */
const isEmpty = (value: unknown): boolean =>
  value === false || value === '' || (typeof value === 'object' && value !== null && Object.keys(value).length === 0)

const maySilently = (client: ConversationName, { path, value }: Member): boolean =>
  isEmpty(value) ||
  SILENT[client].some(([pattern, accepted]) => pattern.test(path) && (accepted === 'any' || accepted.includes(value)))

for (const client of NAMES)
  test.skipIf(!haveSchemas)(`every member of a ${client} request is carried, reported or refused`, () => {
    const members = membersOf(CLIENTS[client])
    const lost = new Set<string>()
    const counts: Record<string, number> = {}
    for (const provider of NAMES.filter((name) => name !== client))
      for (const member of members) {
        const treatment = treatmentOf(member, client, provider)
        const isHarmless = treatment === 'dropped in silence' && maySilently(client, member)
        const counted = isHarmless ? 'without effect' : treatment
        counts[counted] = (counts[counted] ?? 0) + 1
        if (!isHarmless && (treatment === 'dropped in silence' || treatment.startsWith('refused elsewhere')))
          lost.add(`${member.path} ${JSON.stringify(member.value)} -> ${provider}: ${treatment}`)
      }
    const paths = new Set(members.map(({ path }) => path)).size
    console.log(`${client}: ${members.length} values of members at ${paths} paths`, JSON.stringify(counts))
    expect([...lost]).toEqual([])
    expect(paths).toBeGreaterThan(90)
  })
