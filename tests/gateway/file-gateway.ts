import { afterAll, beforeAll } from 'bun:test'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { startGateway, type Gateway } from '../server.ts'
import { ON_POSTGRES } from '../stores.ts'

/** A running gateway whose accounts store files, and requests to it. */

export const MIB = 1024 * 1024
export const FILE_LIMIT = MIB
export const QUOTA = 3 * MIB
const ACCOUNTS = ['mine', 'theirs', 'sdk', 'anthropic', 'replicate', 'full', 'broken', 'corpus', 'loop']
export const keyOf = (account: string): string => `sk-ai-v1-of-account-${account}-0123456789abcdef`
export const bearer = (account: string): string => `authorization: Bearer ${keyOf(account)}`
export const MULTIPART = 'content-type: multipart/form-data; boundary=b'
export const config = (more = ''): string => `
limits: { requestsPerMinute: 100000, file: 1MiB }
files: { quota: 3MiB${ON_POSTGRES ? ', store: folder' : ''} }
accountStatus: { refusals: { monitored: 100000, abusive: 100000 } }
keys: [${ACCOUNTS.map((account) => `{ key: ${keyOf(account)}, account: ${account} }`).join(', ')}]
${more}`

export let gateway: Gateway
export let port: number

/** Starts the gateway for the tests of a file. */
export function useFileGateway(): void {
  beforeAll(async () => {
    gateway = await startGateway({ config: config() })
    port = Number(new URL(gateway.url).port)
  })
  afterAll(() => gateway?.stop())
}

/** The numbers of blobs and of unfinished uploads on the disk of a gateway. */
export function onDisk(data = gateway.data): { blobs: number; uploads: number } {
  const root = join(data, 'files')
  const folders = readdirSync(root).filter((name) => name !== 'uploads')
  return {
    blobs: folders.flatMap((name) => readdirSync(join(root, name))).length,
    uploads: readdirSync(join(root, 'uploads')).length,
  }
}

type Answer = { status: number; headers: Headers; text: string; json: Record<string, any> }

export async function send(
  method: string,
  path: string,
  {
    key = keyOf('mine'),
    body,
    headers = {},
    url = gateway.url,
  }: { key?: string; body?: FormData | string; headers?: Record<string, string>; url?: string } = {},
): Promise<Answer> {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, ...headers },
    ...(body === undefined ? {} : { body }),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: text.startsWith('{') ? (JSON.parse(text) as Record<string, any>) : {},
  }
}

export const form = (
  content: string | Uint8Array<ArrayBuffer>,
  { name = 'a.txt', type = '', ...fields }: Record<string, string> = {},
): FormData => {
  const made = new FormData()
  for (const [field, value] of Object.entries(fields)) made.append(field, value)
  made.append('file', new File([content], name, { type }))
  return made
}

export const upload = async (
  content: string | Uint8Array<ArrayBuffer>,
  fields: Record<string, string> = {},
  key = keyOf('mine'),
): Promise<Answer> => send('POST', '/v1/files', { key, body: form(content, fields) })
