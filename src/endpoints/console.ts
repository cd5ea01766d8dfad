import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { AppContext, PublicRequest } from '../context.ts'
import { GatewayError } from '../error.ts'
import { checkOwnHost } from '../http/own-origin.ts'
import { tryParse } from '../json/parse.ts'
import { projectFile } from '../worker/modules.ts'

/** The built console, and how far its build is. */
const DIST = projectFile('console/dist')
const STATE = projectFile('console/state.json')

const TYPES: Record<string, string> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json',
  png: 'image/png',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
}

/** `isReference`: the page of the API reference, whose parts write markup themselves. */
const policy = (nonce: string, isReference: boolean): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data: blob:",
    "media-src 'self' blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    ...(isReference ? [] : ["require-trusted-types-for 'script'", 'trusted-types default']),
  ].join('; ')

const COMMON: Record<string, string> = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
}

/** `GET /console...`: an asset, or else the page, which finds its way by its address. */
export async function getConsole({ config }: AppContext, { request, params }: PublicRequest): Promise<Response> {
  if (!config.console.enabled) throw new GatewayError('not_found', 'The console is off: console.enabled is false.')
  checkOwnHost(request, config)
  const [path = ''] = params
  if (path.startsWith('assets/')) return asset(path.slice('assets/'.length), request.headers)
  if (path === 'reload.js') return new Response(RELOAD, { headers: { ...COMMON, 'content-type': TYPES.js! } })
  const page = path === 'reference' ? 'reference.html' : 'index.html'
  const file = Bun.file(join(DIST, page))
  return (await file.exists()) ? html(await file.text(), page !== 'index.html') : progress()
}

const NAME = /^[\w-][\w.-]*\.(\w+)$/
const ENCODINGS = [
  ['br', '.br'],
  ['gzip', '.gz'],
] as const

/** A file whose name has a digest of its content: it never changes. */
async function asset(name: string, headers: Headers): Promise<Response> {
  const type = TYPES[NAME.exec(name)?.[1] ?? '']
  if (type === undefined) throw noAsset()
  const accepted = (headers.get('accept-encoding') ?? '').split(',').map((one) => one.trim().split(';')[0])
  const path = join(DIST, 'assets', name)
  for (const [encoding, end] of [
    ...ENCODINGS.filter(([encoding]) => accepted.includes(encoding)),
    [null, ''],
  ] as const) {
    const file = Bun.file(path + end)
    if (!(await file.exists())) continue
    return new Response(file, {
      headers: {
        ...COMMON,
        'content-type': type,
        'cache-control': 'public, max-age=31536000, immutable',
        vary: 'accept-encoding',
        ...(encoding === null ? {} : { 'content-encoding': encoding }),
      },
    })
  }
  throw noAsset()
}

const noAsset = (): GatewayError => new GatewayError('not_found', 'The console has no such file; reload the page.')

function html(text: string, isReference: boolean, status = 200): Response {
  const nonce = randomBytes(18).toString('base64')
  return new Response(text.replaceAll('__CSP_NONCE__', nonce), {
    status,
    headers: {
      ...COMMON,
      'content-type': TYPES.html!,
      'cache-control': 'no-store',
      'content-security-policy': policy(nonce, isReference),
    },
  })
}

/** A refresh by `meta` would stay on the page of a sign-in link: it only moves to the link's fragment. */
const RELOAD = 'setTimeout(() => location.reload(), 2000)\n'

/** The page while there is no console: how far its build is, or what failed. It reloads until there is one. */
async function progress(): Promise<Response> {
  const file = Bun.file(STATE)
  const read = (await file.exists()) ? tryParse(await file.text()) : undefined
  const { state, message } = (read ?? {}) as { state?: unknown; message?: unknown }
  const isUnderWay = state === 'installing' || state === 'building'
  const title = isUnderWay
    ? `The console is ${state === 'installing' ? 'being installed' : 'being built'} ...`
    : NOT_BUILT
  const detail = typeof message === 'string' ? message : isUnderWay ? 'This takes less than a minute.' : ''
  const page = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="color-scheme" content="light dark">
    <script src="/console/reload.js"></script>
    <title>Sluice</title>
    <style nonce="__CSP_NONCE__">
      body { font: 14px/1.5 system-ui, sans-serif; margin: 20vh auto; max-width: 42em; padding: 0 24px }
      h1 { font-size: 20px } pre { white-space: pre-wrap }
    </style>
  </head>
  <body>
    <h1>${escaped(title)}</h1>
    <pre>${escaped(detail)}</pre>
    <p>The server is running. Requests are answered meanwhile.</p>
  </body>
</html>
`
  return html(page, false, 503)
}

const NOT_BUILT = 'The console is not built. "npm run console" builds it.'

const escaped = (text: string): string =>
  text.slice(0, 4000).replace(/[<>&"]/g, (character) => `&#${character.charCodeAt(0)};`)
