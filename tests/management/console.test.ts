import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

/** A copy of the project by links, with a console of its own that was built or not. */
const root = join(import.meta.dir, '../..')
let copy: string
let server: Bun.Subprocess<'ignore', 'pipe', 'ignore'>
let url: string
beforeAll(async () => {
  copy = mkdtempSync(join(tmpdir(), 'sluice-console-'))
  for (const name of ['catalog', 'node_modules', 'package.json', 'launcher'])
    symlinkSync(join(root, name), join(copy, name))
  // Modules are found where they are, and not where a link to them is.
  expect(Bun.spawnSync(['cp', '-r', join(root, 'src'), join(copy, 'src')]).exitCode).toBe(0)
  mkdirSync(join(copy, 'console'))
  server = Bun.spawn(
    [process.execPath, join(copy, 'src/main.ts'), 'serve', '--data', join(copy, 'data'), '--port', '0'],
    {
      cwd: copy,
      env: { PATH: process.env['PATH'] ?? '', OLLAMA_HOST: 'http://127.0.0.1:9' },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'ignore',
    },
  )
  let printed = ''
  for await (const chunk of server.stdout) {
    printed += Buffer.from(chunk).toString()
    if (/^listening on /m.test(printed)) break
  }
  url = /^listening on (\S+)$/m.exec(printed)?.[1] ?? ''
})
afterAll(async () => {
  server.kill('SIGKILL')
  await server.exited
  rmSync(copy, { recursive: true, force: true })
})

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(url + path, { headers: { 'accept-encoding': 'identity', ...headers } })

describe('until the console is built', () => {
  test('the page says how far it is, and what repeats a build that failed', async () => {
    const page = async () => {
      const response = await get('/console/enter')
      return [response.status, await response.text()] as const
    }
    expect(await page()).toEqual([503, expect.stringContaining('npm run console')])
    const state = (value: object) => writeFileSync(join(copy, 'console/state.json'), JSON.stringify(value))
    state({ state: 'installing' })
    expect(await page()).toEqual([503, expect.stringContaining('being installed')])
    state({ state: 'failed', message: 'no network <script>alert(1)</script>' })
    const [, failed] = await page()
    expect(failed).toContain('no network &#60;script&#62;')
    expect(failed).not.toContain('<script>')
  })

  test('the page looks again with the fragment of its address, which has the secret of a link', async () => {
    const page = await get('/console/enter')
    expect(await page.text()).toContain('<script src="/console/reload.js"></script>')
    expect(page.headers.get('content-security-policy')).toContain("script-src 'self'")
    const script = await get('/console/reload.js')
    expect(script.headers.get('content-type')).toContain('text/javascript')
    expect(await script.text()).toContain('location.reload()')
  })
})

describe('once it is built', () => {
  const script = 'console.log(1)\n'
  beforeAll(() => {
    const dist = join(copy, 'console/dist')
    mkdirSync(join(dist, 'assets'), { recursive: true })
    writeFileSync(join(dist, 'index.html'), '<!doctype html><meta name="csp-nonce" content="__CSP_NONCE__">')
    writeFileSync(join(dist, 'build.json'), '{"key":"secret-of-the-build"}')
    writeFileSync(join(dist, 'assets/main-abc.js'), script)
    writeFileSync(join(dist, 'assets/main-abc.js.gz'), gzipSync(script))
    writeFileSync(join(copy, 'outside.js'), 'outside')
  })

  test('every path answers the page, with a policy whose nonce is new each time', async () => {
    const nonces = new Set<string>()
    for (const path of ['/console', '/console/', '/console/enter', '/console/keys/key_1', '/console/build.json']) {
      const response = await get(path)
      const policy = response.headers.get('content-security-policy') ?? ''
      const nonce = /'nonce-([^']+)'/.exec(policy)?.[1] ?? ''
      expect([path, response.status, response.headers.get('cache-control')]).toEqual([path, 200, 'no-store'])
      expect(await response.text()).toContain(`content="${nonce}"`)
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self' 'nonce-")
      expect(policy).toContain("frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types default")
      expect(response.headers.get('referrer-policy')).toBe('no-referrer')
      expect(response.headers.get('cross-origin-opener-policy')).toBe('same-origin')
      nonces.add(nonce)
    }
    expect(nonces.size).toBe(5)
  })

  test('assets are immutable, compressed where the client takes it, and of the folder alone', async () => {
    const plain = await get('/console/assets/main-abc.js')
    expect([await plain.text(), plain.headers.get('content-encoding')]).toEqual([script, null])
    expect(plain.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect(plain.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    const zipped = await get('/console/assets/main-abc.js', { 'accept-encoding': 'gzip, br' })
    expect([zipped.headers.get('content-encoding'), await zipped.text()]).toEqual(['gzip', script])
    for (const path of ['none.js', '..%2f..%2f..%2foutside.js', 'main-abc.js.gz', 'main-abc.map'])
      expect([path, (await get(`/console/assets/${path}`)).status]).toEqual([path, 404])
  })
})
