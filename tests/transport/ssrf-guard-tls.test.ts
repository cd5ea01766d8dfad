import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rawServer } from './raw-server.ts'

const openssl = Bun.which('openssl')
if (openssl === null) console.warn('openssl is not installed: the TLS tests are skipped')

const directory = mkdtempSync(join(tmpdir(), 'sluice-guard-'))
const file = (name: string): string => join(directory, name)
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const run = (...args: string[]): void => {
  const { exitCode, stderr } = Bun.spawnSync([openssl!, ...args], { cwd: directory })
  if (exitCode !== 0) throw new Error(`openssl ${args[0]}: ${stderr}`)
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

const certify = (name: string, subject: string): { cert: Bun.BunFile; key: Bun.BunFile } => {
  writeFileSync(file(`${name}.ext`), `subjectAltName=${subject}`)
  run('req', ...NEW_KEY, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', '/CN=x')
  run(
    'x509',
    '-req',
    '-in',
    `${name}.csr`,
    '-CA',
    'ca.pem',
    '-CAkey',
    'ca.key',
    '-CAcreateserial',
    '-days',
    '2',
    '-extfile',
    `${name}.ext`,
    '-out',
    `${name}.pem`,
  )
  return { cert: Bun.file(file(`${name}.pem`)), key: Bun.file(file(`${name}.key`)) }
}

/** In a process of its own, because authorities and proxies are read at startup. */
const fetchAll = async (urls: string[], env: Record<string, string> = {}): Promise<string[]> => {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'guard-probe.ts'), ...urls], {
    env: { ...process.env, ...env },
    stdout: 'pipe',
  })
  return (await new Response(child.stdout).text()).trim().split('\n')
}

describe.skipIf(openssl === null)('guardedFetch over TLS', () => {
  let server: Bun.Server<undefined>
  const trusted = { NODE_EXTRA_CA_CERTS: file('ca.pem') }
  beforeAll(() => {
    run('req', '-x509', ...NEW_KEY, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', '/CN=authority')
    const one = certify('one', 'DNS:one.example')
    const two = certify('two', 'DNS:two.example')
    const tls = [
      { ...one, serverName: 'one.example' },
      { ...two, serverName: 'two.example' },
    ]
    server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      tls,
      fetch: (request) => new Response(new URL(request.url).hostname),
    })
  })
  afterAll(() => server.stop(true))
  const refused =
    'cannot be used: it could not be reached ' +
    '(The provider could not be reached: its TLS certificate was not accepted.)'

  test('a connection to an address uses the host for SNI and for the certificate', async () => {
    expect(
      await fetchAll([`https://one.example:${server.port}/`, `https://two.example:${server.port}/`], trusted),
    ).toEqual(['got one.example', 'got two.example'])
  })

  test('a certificate for another name is refused', async () => {
    const hosts = ['three.example', 'one.example.two.example', '127.0.0.1', 'localhost']
    expect(
      await fetchAll(
        hosts.map((host) => `https://${host}:${server.port}/`),
        trusted,
      ),
    ).toEqual(hosts.map(() => refused))
  })

  test('a certificate of an unknown authority is refused', async () => {
    expect(await fetchAll([`https://one.example:${server.port}/`])).toEqual([refused])
  })

  test('NODE_TLS_REJECT_UNAUTHORIZED=0 does not disable the check', async () => {
    expect(await fetchAll([`https://one.example:${server.port}/`], { NODE_TLS_REJECT_UNAUTHORIZED: '0' })).toEqual([
      refused,
    ])
  })
})

test('proxies of the environment are not used, because they would connect to unchecked addresses', async () => {
  const proxy = rawServer((socket) => void socket.end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nproxy'))
  const site = rawServer((socket) => void socket.end('HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nsite'))
  const names = ['http_proxy', 'HTTP_PROXY', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY']
  try {
    expect(
      await fetchAll([`http://one.example:${site.port}/`], Object.fromEntries(names.map((name) => [name, proxy.url]))),
    ).toEqual(['got site'])
    expect([proxy.connections, site.connections]).toEqual([0, 1])
  } finally {
    proxy.stop()
    site.stop()
  }
})
