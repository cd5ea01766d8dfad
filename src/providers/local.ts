import { GatewayError } from '../error.ts'
import { readAll, send } from '../http/call.ts'
import { wrongModelText } from '../config-schema.ts'
import { bareUrl } from './switched-on.ts'
import type { Catalogue, Model, Provider } from './catalogue.ts'
import { PROVIDER_ROWS, quirksOf, type ProviderRow } from './rows.ts'

type Environment = Record<string, string | undefined>
type Local = NonNullable<ProviderRow['local']>

/** Nobody waits for this, but a host that swallows packets must not keep a search alive until the next. */
const TIMEOUTS = { connectMs: 500, firstByteMs: 500, idleMs: 500, totalMs: 500 }
const MOST_BYTES = 1024 * 1024
const MOST_MODELS = 1000

/**
 * Looks for model servers on this machine, or where their host variable says, and adds their models to the catalogue.
 * Gives the ids of the models found; none, when nobody answers within half a second. Never throws for a server that is absent or odd.
 */
export async function findLocal(catalogue: Catalogue, env: Environment, signal: AbortSignal): Promise<string[]> {
  const found = await Promise.all(PROVIDER_ROWS.map((row) => (row.local === undefined || catalogue.setUp(row.id) ? [] : findOne(catalogue, row, row.local, env, signal))))
  return found.flat()
}

async function findOne(catalogue: Catalogue, row: ProviderRow, local: Local, env: Environment, signal: AbortSignal): Promise<string[]> {
  const address = localAddress(env[local.hostVariable], local.port)
  const names = address === undefined ? undefined : await modelsAt(address + local.modelsPath, row.id, signal)
  if (names === undefined) return []
  const provider: Provider = {
    id: row.id, name: row.name, headers: {}, quirks: quirksOf(row), unlisted: true, foundBy: 'local',
    speaks: row.protocols.map(({ protocol, path, auth }) => ({ protocol, baseUrl: `${address}/v1${path ?? ''}`, auth: auth ?? row.auth })),
  }
  const models = names.map(({ name, createdAt }): Model => ({ id: `${row.id}/${name}`, name, ownedBy: row.id, createdAt, endpoints: [{ provider: row.id, model: name }], abilities: {} }))
  catalogue.add(provider, models)
  return models.map(({ id }) => id)
}

/** A host variable as the server itself reads it: scheme and port may be missing, and 0.0.0.0 is where it listens, not where it is. Undefined for what is no address. */
export function localAddress(host: string | undefined, port: number): string | undefined {
  const text = host?.trim() ?? ''
  if (text === '') return `http://127.0.0.1:${port}`
  const scheme = /^https?:\/\//.exec(text)?.[0]
  const rest = text.slice(scheme?.length ?? 0)
  const whole = `${scheme ?? 'http://'}${rest.startsWith(':') ? '127.0.0.1' : ''}${rest}`
  if (!URL.canParse(whole)) return undefined
  const url = new URL(whole)
  if (url.hostname === '0.0.0.0') url.hostname = '127.0.0.1'
  if (url.hostname === '[::]') url.hostname = '[::1]'
  if (scheme === undefined && !/^[^/]*:\d+(\/|$)/.test(rest.replace(/^\[[^\]]*\]/, ''))) url.port = String(port)
  return bareUrl(url.origin + url.pathname)
}

async function modelsAt(url: string, provider: string, signal: AbortSignal): Promise<{ name: string; createdAt: number }[] | undefined> {
  try {
    const { status, body } = await send({ url, method: 'GET', headers: { accept: 'application/json' }, timeouts: TIMEOUTS, signal })
    const text = await readAll(body, MOST_BYTES)
    return status === 200 ? readTags(JSON.parse(text), provider) : undefined
  } catch (error) {
    if (error instanceof GatewayError || error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Ollama's `GET /api/tags`: `{models: [{name, modified_at}]}`. */
function readTags(answer: unknown, provider: string): { name: string; createdAt: number }[] | undefined {
  const models = (answer as { models?: unknown } | null)?.models
  if (!Array.isArray(models)) return undefined
  return models.slice(0, MOST_MODELS).flatMap((model: unknown) => {
    const { name, modified_at: modified } = (model ?? {}) as { name?: unknown; modified_at?: unknown }
    if (typeof name !== 'string' || wrongModelText(`${provider}/${name}`) !== undefined) return []
    const at = typeof modified === 'string' ? Date.parse(modified) : NaN
    return [{ name, createdAt: Number.isNaN(at) ? 0 : Math.floor(at / 1000) }]
  })
}
