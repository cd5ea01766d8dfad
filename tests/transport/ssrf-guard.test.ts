import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, spyOn, test } from 'bun:test'
import { readAll, send } from '../../src/http/call.ts'
import { guardedFetch, guardedPost, publicUrlProblem, type GuardOptions } from '../../src/http/ssrf-guard.ts'
import { canaries, type Canaries } from './canary.ts'
import { guard, NOT_PUBLIC, ok, redirect, refusal, resolving, server, stopServers } from './guard-kit.ts'
import { LOCAL_HOSTS, LOCAL_URLS, NAMES_RESOLVING_LOCALLY } from './local-hosts.ts'
import { until } from './raw-server.ts'

let canary: Canaries
beforeAll(() => {
  canary = canaries()
})
afterAll(() => canary.stop())

const realConnect = Bun.connect
const connect = spyOn(Bun, 'connect')
beforeEach(() => {
  connect.mockClear()
  connect.mockImplementation(realConnect)
})
afterEach(stopServers)
afterAll(() => connect.mockRestore())

describe('local hosts and URLs', () => {
  test('the list has more than 300 entries and no duplicates', () => {
    const all = [
      ...LOCAL_HOSTS.map((host) => `http://${host}/`),
      ...NAMES_RESOLVING_LOCALLY.map((host) => `http://${host}/`),
      ...LOCAL_URLS,
    ]
    expect(all.length).toBeGreaterThan(300)
    expect(new Set(all).size).toBe(all.length)
  })

  const urls = (): string[] => [
    ...LOCAL_HOSTS.flatMap((host) => [
      `http://${host}/`,
      `https://${host}/x`,
      `http://${host}:${canary.ports.v4}/`,
      `http://${host}:${canary.ports.v6}/`,
    ]),
    ...NAMES_RESOLVING_LOCALLY.flatMap((host) => [
      `http://${host}/`,
      `https://${host}/x`,
      `http://${host}:${canary.ports.v4}/`,
    ]),
    ...LOCAL_URLS.flatMap((url) =>
      url.includes('PORT')
        ? [url.replace('PORT', String(canary.ports.v4)), url.replace('PORT', String(canary.ports.v6))]
        : [url],
    ),
  ]

  test('local URLs are neither fetched nor posted to', async () => {
    for (const url of urls()) {
      expect(await refusal(guardedFetch(url, guard())), url).toStartWith(NOT_PUBLIC)
      expect(await refusal(guardedPost(url, '{}', {}, guard())), url).toStartWith(NOT_PUBLIC)
    }
    expect(connect).toHaveBeenCalledTimes(0)
    expect(canary.reached).toEqual([])
  })

  test('publicUrlProblem refuses local hosts without a DNS lookup', () => {
    for (const host of LOCAL_HOSTS) expect(publicUrlProblem(`https://${host}/`, { private: [] }), host).toBe(NOT_PUBLIC)
    for (const url of LOCAL_URLS)
      expect(publicUrlProblem(url.replace('PORT', '8080'), { private: [] }), url).toStartWith(NOT_PUBLIC)
    for (const host of NAMES_RESOLVING_LOCALLY)
      expect(publicUrlProblem(`https://${host}/`, { private: [] }), host).toBeUndefined()
  })

  const PROBLEMS: readonly [url: string, problem: string | undefined][] = [
    ['http://user:password@example.com/', `${NOT_PUBLIC} without a user name and password`],
    ['https://example.com:8443/', `${NOT_PUBLIC} on port 80 or 443`],
    ['http://example.com/a b', `${NOT_PUBLIC} without spaces, control characters and backslashes`],
    [`https://example.com/${'x'.repeat(4096)}`, 'must be a URL of at most 4096 characters'],
    ['ftp://example.com/', NOT_PUBLIC],
    ['https://example.com/x?y#z', undefined],
    ['http://example.com:80/', undefined],
    ['https://example.com:443', undefined],
    ['http://example.com:443/', undefined],
    ['HTTPS://EXAMPLE.COM/', undefined],
    ['https://ex\u00e4mple.com/\u00e9t\u00e9.png', undefined],
    ['https://8.8.8.8/', undefined],
    ['https://[2606:4700::1111]/', undefined],
    ['https://example.com./', undefined],
    [`https://${'.'.repeat(252)}a.b/`, undefined],
    [`https://${'.'.repeat(253)}a.b/`, 'must be a public http:// or https:// URL'],
    [`https://example.com/${'x'.repeat(4076)}`, undefined],
  ]

  test('publicUrlProblem says what the URL must be', () => {
    for (const [url, problem] of PROBLEMS) expect(publicUrlProblem(url, { private: [] }), url).toBe(problem!)
  })

  test('a URL that only looks local is resolved by its own host', async () => {
    for (const url of [
      'http://example.com#@127.0.0.1/',
      'http://example.com/@127.0.0.1/',
      'http://example.com?@127.0.0.1/',
      'http://example.com/http://127.0.0.1/',
    ]) {
      const { names, resolve } = resolving([])
      await refusal(guardedFetch(url, guard({ resolve })))
      expect(names).toEqual(['example.com'])
    }
  })
})

describe('DNS results', () => {
  test('a host with one address that is not public is refused, whatever its other addresses', async () => {
    const publicAddresses = ['8.8.8.8', '2606:4700::1111']
    for (const address of [
      '127.0.0.1',
      '::1',
      '10.0.0.1',
      '169.254.169.254',
      '100.64.0.1',
      '::ffff:8.8.8.8',
      '64:ff9b::808:808',
      '2002:808:808::',
      'fe80::1%lo',
      'fd00::1',
      '0.0.0.0',
      'nonsense',
      '',
    ]) {
      for (const addresses of [[address], [address, ...publicAddresses], [...publicAddresses, address]]) {
        expect(await refusal(guardedFetch('https://example.com/', guard({ resolve: async () => addresses })))).toBe(
          `${NOT_PUBLIC} whose host has only public addresses`,
        )
      }
    }
    expect(connect).toHaveBeenCalledTimes(0)
  })

  test('an unknown host is refused with the message of a private one', async () => {
    const failures: GuardOptions['resolve'][] = [
      async () => [],
      async () => {
        throw new Error('getaddrinfo ENOTFOUND at 10.0.0.53')
      },
    ]
    for (const resolve of failures)
      expect(await refusal(guardedFetch('https://example.com/', { ...guard(), resolve: resolve! }))).toBe(
        `${NOT_PUBLIC} whose host has only public addresses`,
      )
    const { resolve: _, ...system } = guard()
    expect(await refusal(guardedFetch('https://no-such-host.invalid/', system))).toBe(
      `${NOT_PUBLIC} whose host has only public addresses`,
    )
  })
})

describe('DNS rebinding', () => {
  /** Redirects connections: each address of `map` is a local port, others are unreachable. Returns the addresses. */
  function fakeInternet(map: Record<string, number>): string[] {
    const dialled: string[] = []
    connect.mockImplementation(((options: Bun.TCPSocketConnectOptions<unknown>) => {
      dialled.push(`${options.hostname}:${options.port}`)
      const port = map[options.hostname]
      return port === undefined
        ? Promise.reject(new Error('unreachable'))
        : realConnect({ ...options, hostname: '127.0.0.1', port })
    }) as typeof Bun.connect)
    return dialled
  }

  test('a host is resolved once, and the connection goes to the checked address', async () => {
    const site = server(() => ok('an image'))
    const dialled = fakeInternet({ '8.8.4.4': site.port })
    const { names, resolve } = resolving(['8.8.4.4'], ['127.0.0.1'])
    const { bytes, mediaType, url } = await guardedFetch('http://example.com/a?b#c', guard({ resolve }))
    expect([Buffer.from(bytes).toString(), mediaType, url, names, dialled]).toEqual([
      'an image',
      'image/png',
      'http://example.com/a?b#c',
      ['example.com'],
      ['8.8.4.4:80'],
    ])
    expect(site.requests).toEqual([
      'GET /a?b HTTP/1.1\r\nhost: example.com\r\naccept-encoding: identity\r\nconnection: close\r\n' +
        'user-agent: sluice\r\naccept: */*\r\n\r\n',
    ])
  })

  test('a host is resolved and checked again for a second call and for each redirect', async () => {
    const site = server((path) => (path === '/moved' ? redirect('/') : ok('x')))
    fakeInternet({ '8.8.4.4': site.port })
    const again = resolving(['8.8.4.4'], ['127.0.0.1'])
    await guardedFetch('http://example.com/', guard({ resolve: again.resolve }))
    expect(await refusal(guardedFetch('http://example.com/', guard({ resolve: again.resolve })))).toStartWith(
      NOT_PUBLIC,
    )
    const moved = resolving(['8.8.4.4'], ['127.0.0.1', '8.8.4.4'])
    expect(await refusal(guardedFetch('http://example.com/moved', guard({ resolve: moved.resolve })))).toBe(
      `${NOT_PUBLIC} whose host has only public addresses`,
    )
    expect(moved.names).toEqual(['example.com', 'example.com'])
    expect(site.requests.length).toBe(2)
  })

  test('the next address is tried if one refuses the connection, two of each family', async () => {
    const site = server(() => ok('x'))
    const dialled = fakeInternet({ '8.8.4.4': site.port })
    await guardedFetch(
      'http://example.com/',
      guard({ resolve: async () => ['2606:4700::1', '2606:4700::2', '2606:4700::3', '1.1.1.1', '8.8.4.4'] }),
    )
    expect(dialled).toEqual(['2606:4700::1:80', '2606:4700::2:80', '1.1.1.1:80', '8.8.4.4:80'])
    expect(
      await refusal(
        guardedFetch('http://example.com/', guard({ resolve: async () => ['1.1.1.1', '1.1.1.2', '8.8.4.4'] })),
      ),
    ).toBe('cannot be used: it could not be reached')
  })
})

test('a POST that was sent is not sent again to the next address', async () => {
  const site = server((_, socket) => {
    socket.end()
    return undefined
  })
  expect(
    await refusal(
      guardedPost(
        `http://box.internal:${site.port}/`,
        '{}',
        {},
        guard({ private: ['box.internal'], resolve: async () => ['127.0.0.1', '127.0.0.1'] }),
      ),
    ),
  ).toContain('could not be reached')
  expect(site.requests.length).toBe(1)
})

describe('exempt private hosts', () => {
  test('a host is exempt with one port or with all its ports', async () => {
    const site = server(() => ok('x'))
    const url = `http://box.internal:${site.port}/`
    for (const name of ['box.internal', `box.internal:${site.port}`])
      expect((await guardedFetch(url, guard({ private: [name] }))).bytes.length).toBe(1)
    expect(site.requests[0]).toContain(`\r\nhost: box.internal:${site.port}\r\n`)
    for (const name of [
      `box.internal:${site.port + 1}`,
      'internal',
      'ox.internal',
      'box.internal.',
      '127.0.0.1',
      `127.0.0.1:${site.port}`,
      '*',
      '',
    ]) {
      expect(await refusal(guardedFetch(url, guard({ private: [name] }))), name).toStartWith(NOT_PUBLIC)
    }
    expect(site.requests.length).toBe(2)
  })

  test("a host is exempt on its scheme's default port, and only from the address check", () => {
    const exempt = { private: ['localhost:80', '[::1]:443', '10.0.0.1'] }
    for (const url of [
      'http://localhost/',
      'http://LOCALHOST:80/',
      'https://[0:0::1]/',
      'http://10.0.0.1:9/',
      'http://0xa.1/',
    ])
      expect(publicUrlProblem(url, exempt), url).toBeUndefined()
    for (const url of [
      'https://localhost/',
      'http://[::1]/',
      'ftp://10.0.0.1/',
      'http://a:b@10.0.0.1/',
      'http://10.0.0.2/',
      'http://localhost./',
    ])
      expect(publicUrlProblem(url, exempt), url).toBeString()
  })

  test('a guarded call neither uses a kept connection of a provider nor leaves one', async () => {
    const site = server(() => ok('x'))
    const provider = async (): Promise<void> => {
      const timeouts = { connectMs: 5_000, firstByteMs: 5_000, idleMs: 5_000, totalMs: 5_000 }
      const response = await send({
        url: `http://${site.host}/`,
        method: 'GET',
        headers: {},
        timeouts,
        signal: new AbortController().signal,
      })
      await readAll(response.body, 100)
    }
    await provider()
    await guardedFetch(`http://${site.host}/`, guard({ private: [site.host] }))
    expect(site.connections).toBe(2)
    await until(() => site.open === 1)
    await provider()
    expect(site.connections).toBe(2)
  })
})
