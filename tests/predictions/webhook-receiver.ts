import { afterEach, beforeEach, expect } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { validateWebhook } from 'replicate'
import { SteadyClock } from '../../src/accounts/clock.ts'
import { Keys } from '../../src/accounts/keys.ts'
import { readConfig, type Config } from '../../src/config/load.ts'
import { toStored, type Prediction } from '../../src/endpoints/predictions/prediction.ts'
import { getWebhookSecret, Webhooks } from '../../src/endpoints/predictions/webhooks.ts'
import { accountsOf } from '../../src/ledger/starting-credit.ts'
import type { AuthenticatedRequest } from '../../src/context.ts'
import type { Store } from '../../src/store/store.ts'
import { storeIn } from '../stores.ts'

/** Webhooks over a store, and a server that receives their calls. */

export type Got = {
  path: string
  headers: Headers
  text: string
  body: { id: string; status: string; logs: string; input: object; output: unknown }
}

let folder: string
export let store: Store
let modules: { store: Store; keys: Keys; config: Config; clock: SteadyClock }
let receiver: ReturnType<typeof Bun.serve>
export let got: Got[]
/** The status that the receiver responds with, by the path of its URL. */
export let answers: Map<string, () => number | Promise<number>>
const open: Webhooks[] = []

/** Opens the store and the receiver for each test of a file. */
export function useWebhooks(): void {
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-webhooks-'))
    got = []
    answers = new Map()
    receiver = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      async fetch(request) {
        const { pathname: path } = new URL(request.url)
        const text = await request.text()
        got.push({ path, headers: request.headers, text, body: JSON.parse(text) as Got['body'] })
        return new Response(null, { status: await (answers.get(path)?.() ?? 200) })
      },
    })
    await restart()
  })
  afterEach(async () => {
    await Promise.all(open.splice(0).map((webhooks) => webhooks.stop()))
    await store.close()
    await receiver.stop(true)
    rmSync(folder, { recursive: true, force: true })
  })
}

export async function restart(): Promise<void> {
  store = await storeIn(folder, { exclusive: true })
  const config = readConfig(`fetch: { private: ["127.0.0.1:${receiver.port}"] }\n`, 'sluice.yaml', {})
  modules = {
    store,
    config,
    clock: new SteadyClock(),
    keys: await Keys.open({ store, accounts: accountsOf(store, config), folder }),
  }
}

export const webhooksWith = (options: ConstructorParameters<typeof Webhooks>[1] = {}): Webhooks => {
  const webhooks = new Webhooks(modules, { retryAfterMs: [20, 20, 20], pauseMs: 30, ...options })
  open.push(webhooks)
  return webhooks
}

export const urlOf = (path: string): string => `http://127.0.0.1:${receiver.port}${path}`

let made = 0
export const prediction = (path: string, more: Partial<Prediction> = {}): Prediction => ({
  id: (++made).toString(16).padStart(32, '0'),
  accountId: 'mine',
  model: 'owner/name',
  status: 'processing',
  createdAt: 1,
  startedAt: 2,
  completedAt: null,
  version: null,
  input: { prompt: 'a fox' },
  output: null,
  error: null,
  logs: '',
  origin: 'https://sluice.example',
  webhook: { url: urlOf(path), events: ['start', 'output', 'logs', 'completed'] },
  ...more,
})

export const ended = (of: Prediction, more: Partial<Prediction> = {}): Prediction => ({
  ...of,
  status: 'succeeded',
  output: ['x'],
  completedAt: 3,
  ...more,
})

/** Ends a prediction as the predictor does. */
export async function finish(webhooks: Webhooks, of: Prediction): Promise<void> {
  await store.predictions.add(toStored({ ...of, status: 'processing', completedAt: null }))
  const delivery = webhooks.delivery(of)
  expect(await store.predictions.update(toStored(of), delivery === undefined ? [] : [delivery])).toBe(true)
  webhooks.notify(of, 'completed')
}

export const secretOf = async (accountId: string): Promise<string> =>
  ((await getWebhookSecret(modules, { identity: { accountId } } as AuthenticatedRequest).json()) as { key: string }).key
export const validated = ({ headers, text }: Got, secret: string): Promise<boolean> =>
  validateWebhook({
    id: headers.get('webhook-id')!,
    timestamp: headers.get('webhook-timestamp')!,
    body: text,
    signature: headers.get('webhook-signature')!,
    secret,
  })
export const countDue = async (): Promise<number> => (await store.predictions.dueDeliveries(Infinity, 1_000)).length
