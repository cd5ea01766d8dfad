import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const openssl = Bun.which('openssl')
if (openssl === null) console.warn('openssl is not installed: the TLS tests are skipped')

const directory = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
const file = (name: string): string => join(directory, name)
const servers: Bun.Server<undefined>[] = []
afterAll(() => {
  for (const server of servers) void server.stop(true)
  rmSync(directory, { recursive: true, force: true })
})

const run = (...args: string[]): void => {
  const { exitCode, stderr } = Bun.spawnSync([openssl!, ...args], { cwd: directory })
  if (exitCode !== 0) throw new Error(`openssl ${args[0]}: ${stderr}`)
}

/** A server with a certificate for `name`, signed by the test authority. */
const serveAs = (name: string): string => {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  writeFileSync(file(`${name}.ext`), `subjectAltName=DNS:${name}`)
  run('req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`)
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
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    tls: { cert: Bun.file(file(`${name}.pem`)), key: Bun.file(file(`${name}.key`)) },
    fetch: () => new Response(name),
  })
  servers.push(server)
  return `https://localhost:${server.port}/`
}

/** In a process of its own, because trusted authorities are read at startup. */
const calls = async (urls: string[], env: Record<string, string>): Promise<string[]> => {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, 'tls-probe.ts'), ...urls], {
    env: { ...process.env, ...env },
    stdout: 'pipe',
  })
  return (await new Response(child.stdout).text()).trim().split('\n')
}

describe.skipIf(openssl === null)('TLS connections', () => {
  let right = ''
  let wrong = ''
  beforeAll(() => {
    run(
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-keyout',
      'ca.key',
      '-out',
      'ca.pem',
      '-days',
      '2',
      '-subj',
      '/CN=authority',
    )
    right = serveAs('localhost')
    wrong = serveAs('elsewhere.example')
  })

  const refused = 'The provider could not be reached: its TLS certificate was not accepted.'

  test('a connection to the host of the certificate is accepted and reused', async () => {
    expect(await calls([right, right, wrong], { NODE_EXTRA_CA_CERTS: file('ca.pem') })).toEqual([
      '200 localhost',
      '200 localhost',
      refused,
    ])
  })

  test('a connection to an address that the certificate does not name is refused', async () => {
    expect(await calls([right.replace('localhost', '127.0.0.1')], { NODE_EXTRA_CA_CERTS: file('ca.pem') })).toEqual([
      refused,
    ])
  })

  test('a certificate of an unknown authority is refused', async () => {
    expect(await calls([right], {})).toEqual([refused])
  })

  test('a connection to a server without TLS fails', async () => {
    const plain = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('x') })
    servers.push(plain)
    expect(await calls([`https://localhost:${plain.port}/`], {})).toEqual([
      expect.stringContaining('The provider could not be reached'),
    ])
  })
})
