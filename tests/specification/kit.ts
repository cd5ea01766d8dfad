import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startGateway, type Gateway } from '../server.ts'

/** Tables of rules of the specification, each tested over HTTP: violations are refused with their path. */

export const MODELS = ['sandbox/chat', 'sandbox/responses', 'sandbox/messages', 'sandbox/gemini'] as const

/** One running gateway for a test file. */
export function useGateway(config?: string): {
  url(): string
  key(): string
  createdKeys(): Record<string, string>
} {
  let gateway: Gateway | undefined
  beforeAll(async () => {
    gateway = await startGateway({ config: config ?? 'limits: { requestsPerMinute: 1000000 }\n' })
  })
  afterAll(() => gateway?.stop())
  return { url: () => gateway!.url, key: () => gateway!.key, createdKeys: () => gateway!.createdKeys }
}

export type Json = Record<string, unknown>

/**
 * `wrong`: the path in the refusal; absent if the request is accepted. `only`: the models that accept it, if not all
 * do.
 */
export type Row = { rule: string; patch: Json; wrong?: string; only?: readonly string[]; says?: RegExp }

export const ok = (rule: string, patch: Json, only?: readonly string[]): Row => ({
  rule,
  patch,
  ...(only === undefined ? {} : { only }),
})
export const no = (rule: string, wrong: string, patch: Json, says?: RegExp): Row => ({
  rule,
  patch,
  wrong,
  ...(says === undefined ? {} : { says }),
})

export type Surface = {
  gateway: { url(): string; key(): string }
  /** Sends a valid request with members replaced by those of `patch`, or removed if they are undefined there. */
  send(model: string, patch: Json): Promise<Response>
  native: string
  /** Message and path of a refusal in the protocol's format. Throws for any other format. */
  refusal(body: Json): { message: string; param: string | undefined }
}

export const post = (
  gateway: { url(): string; key(): string },
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Response> =>
  fetch(gateway.url() + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key()}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

/** Refusals are tested with one model, on which they do not depend, and accepted requests with every model. */
export function table(name: string, surface: Surface, rows: Row[]): void {
  describe(name, () => {
    for (const row of rows) {
      if (row.wrong !== undefined) test(`refused: ${row.rule}`, () => refused(surface, row))
      else
        for (const model of row.only ?? MODELS)
          test(`accepted: ${row.rule} (${model})`, () => accepted(surface, row, model))
    }
  })
}

async function refused({ send, native, refusal }: Surface, { patch, wrong, says }: Row): Promise<void> {
  const response = await send(native, patch)
  const body = (await response.json()) as Json
  if (response.status !== 400) throw new Error(`answered ${response.status}: ${JSON.stringify(body).slice(0, 500)}`)
  const { message, param } = refusal(body)
  if (param !== undefined) expect(param).toBe(wrong ?? '')
  expect(message).toStartWith(`${wrong}: `)
  expect(message).toMatch(says ?? /must|is required|needs|has to|not supported/)
}

/** Placeholders in rows for the ids of uploaded files. */
export const FILES = { png: 'file-of-a-png', pdf: 'file-of-a-pdf' }

const CONTENTS = {
  png: Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=',
    'base64',
  ),
  pdf: Buffer.from('%PDF-1.4\n%%EOF\n'),
}

/** The row with its placeholders replaced by ids. */
async function withFiles(gateway: Surface['gateway'], patch: Json): Promise<Json> {
  for (const kind of ['png', 'pdf'] as const) {
    if (!JSON.stringify(patch).includes(FILES[kind])) continue
    const form = new FormData()
    form.set('purpose', 'user_data')
    form.set('file', new File([CONTENTS[kind]], `a.${kind}`))
    const uploaded = await fetch(`${gateway.url()}/v1/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key()}` },
      body: form,
    })
    const { id } = (await uploaded.json()) as { id: string }
    patch = JSON.parse(JSON.stringify(patch).replaceAll(FILES[kind], id)) as Json
  }
  return patch
}

async function accepted({ send, gateway }: Surface, row: Row, model: string): Promise<void> {
  const patch = await withFiles(gateway, row.patch)
  const response = await send(model, patch)
  const text = await response.text()
  if (response.status !== 200) throw new Error(`answered ${response.status}: ${text.slice(0, 500)}`)
}

/** The error object of OpenAI's protocols. */
export function openAiRefusal(body: Json): { message: string; param: string } {
  const { message, type, param, code } = body.error as Record<string, string>
  expect(type).toBe('invalid_request_error')
  expect(['invalid_request', 'unsupported_parameter']).toContain(code!)
  return { message: message!, param: param! }
}

export const without = (value: Json): Json =>
  Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined))

/** `count` values made from their index. */
export const many = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))
