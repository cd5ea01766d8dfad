import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, spyOn, test } from 'bun:test'
import { BlockList } from 'node:net'
import fc from 'fast-check'
import { GatewayError } from '../../src/error.ts'
import { isPublicAddress } from '../../src/http/addresses.ts'
import { closeIdle } from '../../src/http/connection.ts'
import { readAll, send } from '../../src/http/call.ts'
import { guardedFetch, guardedPost, publicUrlProblem } from '../../src/http/ssrf-guard.ts'
import type { GuardOptions } from '../../src/http/ssrf-guard.ts'
import { canaries } from './canary.ts'
import type { Canaries } from './canary.ts'
import { LOCAL_HOSTS, LOCAL_URLS, NAMES_LEADING_HOME } from './outside-hosts.ts'
import { rawServer, until } from './raw-server.ts'
import type { RawServer, RawSocket } from './raw-server.ts'

let canary: Canaries
beforeAll(() => {
  canary = canaries()
})
afterAll(() => canary.stop())

const servers: RawServer[] = []
const realConnect = Bun.connect
const connect = spyOn(Bun, 'connect')
beforeEach(() => {
  connect.mockClear()
  connect.mockImplementation(realConnect)
})
afterEach(() => {
  for (const server of servers.splice(0)) server.stop()
  closeIdle()
})
afterAll(() => connect.mockRestore())

const NOT_PUBLIC = 'must be a public http:// or https:// URL'
const leadsHome = async (): Promise<string[]> => ['127.0.0.1']
const resolving = (...answers: string[][]): { asked: string[]; resolve: (host: string) => Promise<string[]> } => {
  const asked: string[] = []
  return {
    asked,
    resolve: async (host) => {
      asked.push(host)
      return answers[asked.length - 1] ?? answers.at(-1)!
    },
  }
}

const outside = (more: Partial<GuardOptions> = {}): GuardOptions => ({
  private: [],
  maxBytes: 1000,
  totalMs: 5_000,
  resolve: leadsHome,
  ...more,
})

/** What a refused call says. Fails where it was not refused, or with something that is not the client's to hear. */
async function refusal(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof GatewayError)) throw new Error(`not refused: ${String(error)}`)
  expect(error.code).toBe('invalid_request')
  expect(error.param).toBeUndefined()
  expect(error.message).not.toMatch(/\d+\.\d+\.\d+\.\d+|:[\da-f]*:|localhost/i)
  return error.message
}

const answer = (body: string, head = 'content-type: image/png'): string =>
  `HTTP/1.1 200 OK\r\n${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
const redirect = (to: string, status = 302): string =>
  `HTTP/1.1 ${status} Elsewhere\r\nlocation: ${to}\r\nset-cookie: session=1\r\ncontent-length: 0\r\n\r\n`

/** A server that stands for one on the internet, exempt as `host`. */
function server(
  answers: (path: string, socket: RawSocket, count: number) => string | undefined,
): RawServer & { host: string } {
  const raw = rawServer((socket, request, count) => {
    const text = answers(request.split(' ')[1]!, socket, count)
    if (text !== undefined) socket.write(text)
  })
  servers.push(raw)
  return Object.assign(raw, { host: `127.0.0.1:${raw.port}` })
}

describe('what is not outside', () => {
  test('the list is long enough to mean something, and has nothing twice', () => {
    const all = [
      ...LOCAL_HOSTS.map((host) => `http://${host}/`),
      ...NAMES_LEADING_HOME.map((host) => `http://${host}/`),
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
    ...NAMES_LEADING_HOME.flatMap((host) => [
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

  test('is neither fetched nor posted to, and nobody here is ever reached', async () => {
    for (const url of urls()) {
      expect(await refusal(guardedFetch(url, outside())), url).toStartWith(NOT_PUBLIC)
      expect(await refusal(guardedPost(url, '{}', {}, outside())), url).toStartWith(NOT_PUBLIC)
    }
    expect(connect).toHaveBeenCalledTimes(0)
    expect(canary.reached).toEqual([])
  })

  test('is told from the text alone where it can be', () => {
    for (const host of LOCAL_HOSTS) expect(publicUrlProblem(`https://${host}/`, { private: [] }), host).toBe(NOT_PUBLIC)
    for (const url of LOCAL_URLS)
      expect(publicUrlProblem(url.replace('PORT', '8080'), { private: [] }), url).toStartWith(NOT_PUBLIC)
    for (const host of NAMES_LEADING_HOME)
      expect(publicUrlProblem(`https://${host}/`, { private: [] }), host).toBeUndefined()
  })

  const WORDED: readonly [url: string, wrong: string | undefined][] = [
    ['http://user:password@example.com/', `${NOT_PUBLIC} without a user name and a password`],
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
    [`https://example.com/${'x'.repeat(4076)}`, undefined],
  ]

  test('is told in words that say what would be right', () => {
    for (const [url, wrong] of WORDED) expect(publicUrlProblem(url, { private: [] }), url).toBe(wrong!)
  })

  test('a URL that only looks local is asked for the host it names', async () => {
    for (const url of [
      'http://example.com#@127.0.0.1/',
      'http://example.com/@127.0.0.1/',
      'http://example.com?@127.0.0.1/',
      'http://example.com/http://127.0.0.1/',
    ]) {
      const { asked, resolve } = resolving([])
      await refusal(guardedFetch(url, outside({ resolve })))
      expect(asked).toEqual(['example.com'])
    }
  })
})

describe('addresses', () => {
  const RESERVED = {
    ipv4: [
      '0.0.0.0/8',
      '10.0.0.0/8',
      '100.64.0.0/10',
      '127.0.0.0/8',
      '169.254.0.0/16',
      '172.16.0.0/12',
      '192.0.0.0/24',
      '192.0.2.0/24',
      '192.88.99.0/24',
      '192.168.0.0/16',
      '198.18.0.0/15',
      '198.51.100.0/24',
      '203.0.113.0/24',
      '224.0.0.0/4',
      '240.0.0.0/4',
      '168.63.129.16/32',
    ],
    ipv6: ['::/3', '4000::/2', '8000::/1', '2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'],
  } as const
  const isReserved = (address: string, family: 'ipv4' | 'ipv6'): boolean => oracles[family].check(address, family)
  // One for each family: a list takes IPv4 addresses for mapped ones.
  const oracles = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const family of ['ipv4', 'ipv6'] as const)
    for (const range of RESERVED[family])
      oracles[family].addSubnet(range.split('/')[0]!, Number(range.split('/')[1]), family)

  const v4 = fc.array(fc.integer({ min: 0, max: 255 }), { minLength: 4, maxLength: 4 })
  /** Near the edges of what is reserved, where mistakes are. */
  const starts = RESERVED.ipv4.map((range) => range.split('/')[0]!.split('.').map(Number))
  const near = fc
    .tuple(fc.constantFrom(...starts), fc.integer({ min: 0, max: 3 }), fc.integer({ min: -1, max: 64 }))
    .map(([bytes, at, by]) => bytes.map((byte, index) => (index === at ? (byte + by + 256) % 256 : byte)))

  test('of IPv4: public is what no registry reserves', () => {
    fc.assert(
      fc.property(fc.oneof(v4, near), (bytes) => {
        const text = bytes.join('.')
        return isPublicAddress(text) === !isReserved(text, 'ipv4')
      }),
      { numRuns: 5000 },
    )
  })

  const group = fc.oneof(
    fc.constantFrom(0, 1, 0x2000, 0x2001, 0x2002, 0x3fff, 0x01ff, 0x0200, 0xdb8, 0xffff),
    fc.integer({ min: 0, max: 0xffff }),
  )
  const spelled = fc
    .tuple(fc.array(group, { minLength: 8, maxLength: 8 }), fc.boolean(), fc.boolean(), fc.boolean())
    .map(([groups, upper, padded, dotted]) => {
      const hex = groups.map((one) => one.toString(16).padStart(padded ? 4 : 1, '0'))
      const tail = dotted
        ? [[groups[6]! >> 8, groups[6]! & 255, groups[7]! >> 8, groups[7]! & 255].join('.')]
        : hex.slice(6)
      const text = [...hex.slice(0, 6), ...tail].join(':')
      return { text: upper ? text.toUpperCase() : text, short: new URL(`http://[${text}]/`).hostname.slice(1, -1) }
    })

  test('of IPv6: public is what is given out and not reserved, in every spelling', () => {
    fc.assert(
      fc.property(spelled, ({ text, short }) => {
        const isPublic = !isReserved(text, 'ipv6')
        return isPublicAddress(text) === isPublic && isPublicAddress(short) === isPublic
      }),
      { numRuns: 5000 },
    )
  })

  test('first and last of each range are refused, their neighbours are not', () => {
    const refused = [
      '0.0.0.0',
      '0.255.255.255',
      '10.0.0.0',
      '10.255.255.255',
      '100.64.0.0',
      '100.127.255.255',
      '127.0.0.0',
      '127.255.255.255',
      '169.254.0.0',
      '169.254.255.255',
      '172.16.0.0',
      '172.31.255.255',
      '192.0.0.0',
      '192.0.0.255',
      '192.0.2.0',
      '192.0.2.255',
      '192.88.99.0',
      '192.168.0.0',
      '192.168.255.255',
      '198.18.0.0',
      '198.19.255.255',
      '198.51.100.255',
      '203.0.113.0',
      '224.0.0.0',
      '255.255.255.255',
      '168.63.129.16',
    ]
    const accepted = [
      '1.0.0.0',
      '9.255.255.255',
      '11.0.0.0',
      '100.63.255.255',
      '100.128.0.0',
      '126.255.255.255',
      '128.0.0.0',
      '169.253.255.255',
      '169.255.0.0',
      '172.15.255.255',
      '172.32.0.0',
      '192.0.1.0',
      '192.0.3.0',
      '192.88.98.255',
      '192.167.255.255',
      '192.169.0.0',
      '198.17.255.255',
      '198.20.0.0',
      '203.0.112.255',
      '203.0.114.0',
      '223.255.255.255',
      '168.63.129.15',
      '2606:4700::1111',
      '2001:200::',
      '2001:4860:4860::8888',
      '2003::1',
      '3ffe::1',
      '2a00:1450::1',
    ]
    expect(refused.filter(isPublicAddress)).toEqual([])
    expect(accepted.filter((address) => !isPublicAddress(address))).toEqual([])
  })

  test('text that is no address is not public', () => {
    for (const text of [
      '',
      '8.8.8',
      '8.8.8.8.',
      '08.8.8.8',
      '8.8.8.8 ',
      '0x8.8.8.8',
      '2606:4700::1111%eth0',
      '2606::4700::1',
      '[2606:4700::1111]',
      'example.com',
      '8.8.8.8/32',
    ])
      expect(isPublicAddress(text), text).toBe(false)
  })

  test('of a name that leads to one that is not public, however many others it has, are refused', async () => {
    const publicOnes = ['8.8.8.8', '2606:4700::1111']
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
      for (const answers of [[address], [address, ...publicOnes], [...publicOnes, address]]) {
        expect(await refusal(guardedFetch('https://example.com/', outside({ resolve: async () => answers })))).toBe(
          `${NOT_PUBLIC} whose host has public addresses only`,
        )
      }
    }
    expect(connect).toHaveBeenCalledTimes(0)
  })

  test('of a name that nobody knows: the same words as for one of ours, since they would tell what names we have', async () => {
    const failures: GuardOptions['resolve'][] = [
      async () => [],
      async () => {
        throw new Error('getaddrinfo ENOTFOUND at 10.0.0.53')
      },
    ]
    for (const resolve of failures)
      expect(await refusal(guardedFetch('https://example.com/', { ...outside(), resolve: resolve! }))).toBe(
        `${NOT_PUBLIC} whose host has public addresses only`,
      )
    const { resolve: _, ...system } = outside()
    expect(await refusal(guardedFetch('https://no-such-host.invalid/', system))).toBe(
      `${NOT_PUBLIC} whose host has public addresses only`,
    )
  })
})

describe('a name that changes where it leads', () => {
  /** The internet: a connection to the address of a map goes to a server here. What was asked for is kept. */
  function internet(map: Record<string, number>): string[] {
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

  test('is asked once, and what was checked is what is connected to', async () => {
    const site = server(() => answer('picture'))
    const dialled = internet({ '8.8.4.4': site.port })
    const { asked, resolve } = resolving(['8.8.4.4'], ['127.0.0.1'])
    const { bytes, mediaType, url } = await guardedFetch('http://example.com/a?b#c', outside({ resolve }))
    expect([Buffer.from(bytes).toString(), mediaType, url, asked, dialled]).toEqual([
      'picture',
      'image/png',
      'http://example.com/a?b#c',
      ['example.com'],
      ['8.8.4.4:80'],
    ])
    expect(site.requests).toEqual([
      'GET /a?b HTTP/1.1\r\nhost: example.com\r\naccept-encoding: identity\r\nconnection: close\r\nuser-agent: sluice\r\naccept: */*\r\n\r\n',
    ])
  })

  test('is checked anew for a second call and for each redirect', async () => {
    const site = server((path) => (path === '/moved' ? redirect('/') : answer('x')))
    internet({ '8.8.4.4': site.port })
    const again = resolving(['8.8.4.4'], ['127.0.0.1'])
    await guardedFetch('http://example.com/', outside({ resolve: again.resolve }))
    expect(await refusal(guardedFetch('http://example.com/', outside({ resolve: again.resolve })))).toStartWith(
      NOT_PUBLIC,
    )
    const moved = resolving(['8.8.4.4'], ['127.0.0.1', '8.8.4.4'])
    expect(await refusal(guardedFetch('http://example.com/moved', outside({ resolve: moved.resolve })))).toBe(
      `${NOT_PUBLIC} whose host has public addresses only`,
    )
    expect(moved.asked).toEqual(['example.com', 'example.com'])
    expect(site.requests.length).toBe(2)
  })

  test('and of which one address does not answer is reached at the next', async () => {
    const site = server(() => answer('x'))
    const dialled = internet({ '8.8.4.4': site.port })
    await guardedFetch(
      'http://example.com/',
      outside({ resolve: async () => ['2606:4700::1', '2606:4700::2', '2606:4700::3', '1.1.1.1', '8.8.4.4'] }),
    )
    expect(dialled).toEqual(['2606:4700::1:80', '2606:4700::2:80', '1.1.1.1:80', '8.8.4.4:80'])
    expect(
      await refusal(
        guardedFetch('http://example.com/', outside({ resolve: async () => ['1.1.1.1', '1.1.1.2', '8.8.4.4'] })),
      ),
    ).toBe(`${NOT_PUBLIC} that can be read, but it could not be reached`)
  })
})

test('a webhook that was sent is not sent again to the next address', async () => {
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
        outside({ private: ['box.internal'], resolve: async () => ['127.0.0.1', '127.0.0.1'] }),
      ),
    ),
  ).toContain('could not be reached')
  expect(site.requests.length).toBe(1)
})

describe('redirects', () => {
  test('are followed three times, and no further', async () => {
    const site = server((path) => (path === '/0' ? answer('there') : redirect(`/${Number(path.slice(1)) - 1}`)))
    const options = outside({ private: [site.host] })
    const { url } = await guardedFetch(`http://${site.host}/3`, options)
    expect(url).toBe(`http://${site.host}/0`)
    expect(await refusal(guardedFetch(`http://${site.host}/4`, options))).toBe(
      `${NOT_PUBLIC} that can be read, but it redirects more than 3 times`,
    )
    expect(site.requests.length).toBe(8)
  })

  test('are left unread', async () => {
    const site = server((path) =>
      path === '/' ? redirect('/2').replace('content-length: 0', 'content-length: 9') : answer('x'),
    )
    await guardedFetch(`http://${site.host}/`, outside({ private: [site.host] }))
    await until(() => site.open === 0)
  })

  test('to itself end as well', async () => {
    const site = server(() => redirect('/'))
    expect(await refusal(guardedFetch(`http://${site.host}/`, outside({ private: [site.host] })))).toContain(
      'redirects more than 3 times',
    )
    expect(site.requests.length).toBe(4)
  })

  test('carry nothing that was sent or set before', async () => {
    const site = server((path) => (path === '/' ? redirect(`http://${site.host}/2`) : answer('x')))
    await guardedFetch(`http://${site.host}/`, outside({ private: [site.host] }))
    expect(site.requests.map((request) => request.replace(/^.*\r\n/, ''))).toEqual(
      Array(2).fill(
        `host: ${site.host}\r\naccept-encoding: identity\r\nconnection: close\r\nuser-agent: sluice\r\naccept: */*\r\n\r\n`,
      ),
    )
    expect(site.connections).toBe(2)
  })

  test('from a public host to anything of the list reach nobody', async () => {
    let to = ''
    const site = server(() => redirect(to))
    const targets = [
      ...[301, 302, 303, 307, 308].map((status) => ({ status, url: `http://127.0.0.1:${canary.ports.v4}/` })),
      ...[
        '127.0.0.1',
        '[::1]',
        'localhost',
        '2130706433',
        '0x7f.1',
        '[::ffff:7f00:1]',
        '169.254.169.254',
        'metadata.google.internal',
        'localtest.me',
        '127.0.0.1.nip.io',
      ]
        .flatMap((host) => [
          `http://${host}/`,
          `https://${host}/`,
          `http://${host}:${canary.ports.v4}/`,
          `//${host}:${canary.ports.v6}/`,
        ])
        .map((url) => ({ status: 302, url })),
      ...LOCAL_URLS.filter((url) => /^[a-z+:]*:\/\//.test(url) && /^[!-~]+$/.test(url)).map((url) => ({
        status: 302,
        url: url.replace('PORT', String(canary.ports.v4)),
      })),
    ]
    expect(targets.length).toBeGreaterThan(100)
    for (const { status, url } of targets) {
      to = url
      const seen = site.requests.length
      await refusal(guardedFetch(`http://${site.host}/`, outside({ private: [site.host] })))
      expect(site.requests.length - seen, `${status} ${url}`).toBe(1)
    }
    expect(canary.reached).toEqual([])
  })

  test('of a webhook are not followed', async () => {
    const site = server((path) => (path === '/' ? redirect('/2', 307) : answer('x')))
    expect(
      await guardedPost(
        `http://${site.host}/`,
        '{"a":1}',
        { 'content-type': 'application/json', 'webhook-id': 'w1' },
        outside({ private: [site.host] }),
      ),
    ).toBe(307)
    expect(site.requests).toEqual([
      `POST / HTTP/1.1\r\nhost: ${site.host}\r\naccept-encoding: identity\r\nconnection: close\r\nuser-agent: sluice\r\ncontent-type: application/json\r\nwebhook-id: w1\r\ncontent-length: 7\r\n\r\n{"a":1}`,
    ])
  })
})

describe('hosts that are private and may be reached', () => {
  test('are named with their port, or for all their ports', async () => {
    const site = server(() => answer('x'))
    const url = `http://box.internal:${site.port}/`
    for (const name of ['box.internal', `box.internal:${site.port}`])
      expect((await guardedFetch(url, outside({ private: [name] }))).bytes.length).toBe(1)
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
      expect(await refusal(guardedFetch(url, outside({ private: [name] }))), name).toStartWith(NOT_PUBLIC)
    }
    expect(site.requests.length).toBe(2)
  })

  test("are exempt on their scheme's own port too, and from nothing else", () => {
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

  test("are not reached over a connection that a provider's calls have kept, nor leave one to them", async () => {
    const site = server(() => answer('x'))
    const provider = async (): Promise<void> => {
      const timeouts = { connectMs: 5_000, firstByteMs: 5_000, idleMs: 5_000, totalMs: 5_000 }
      const incoming = await send({
        url: `http://${site.host}/`,
        method: 'GET',
        headers: {},
        timeouts,
        signal: new AbortController().signal,
      })
      await readAll(incoming.body, 100)
    }
    await provider()
    await guardedFetch(`http://${site.host}/`, outside({ private: [site.host] }))
    expect(site.connections).toBe(2)
    await until(() => site.open === 1)
    await provider()
    expect(site.connections).toBe(2)
  })
})

describe('an answer', () => {
  const get = (site: { host: string }, more: Partial<GuardOptions> = {}) =>
    guardedFetch(`http://${site.host}/`, outside({ private: [site.host], ...more }))
  const soon = { totalMs: 150 }

  test.each([
    ['declared', 'content-length: 1001\r\n\r\n'],
    ['in chunks', `transfer-encoding: chunked\r\n\r\n3e9\r\n${'x'.repeat(1001)}\r\n`],
    ['to the end of the connection', `\r\n${'x'.repeat(1001)}`],
  ])('larger than allowed is refused: %s', async (_, rest) => {
    const site = server(() => `HTTP/1.1 200 OK\r\n${rest}`)
    expect(await refusal(get(site))).toBe(`${NOT_PUBLIC} that can be read, but it is larger than 1000 bytes`)
    await until(() => site.open === 0)
  })

  test('as large as allowed is given whole', async () => {
    const site = server(() => answer('x'.repeat(1000), 'content-type: Image/PNG; charset=x'))
    const { bytes, mediaType } = await get(site)
    expect([bytes.length, mediaType]).toEqual([1000, 'image/png'])
  })

  test('without a content type, and an empty one, are given', async () => {
    const site = server(() => answer('', 'x: y'))
    expect(await get(site)).toEqual({ bytes: Buffer.alloc(0), mediaType: undefined, url: `http://${site.host}/` })
  })

  test('without end is broken off', async () => {
    let sent = 0
    const site = server((_, socket) => {
      const more = setInterval(() => {
        if (socket.write('x'.repeat(100)) > 0) sent += 100
        else clearInterval(more)
      }, 1)
      return 'HTTP/1.1 200 OK\r\n\r\n'
    })
    expect(await refusal(get(site))).toContain('larger than 1000 bytes')
    await until(() => site.open === 0)
    expect(sent).toBeLessThan(1_000_000)
  })

  test.each([
    ['that never begins', (): string | undefined => undefined],
    [
      'whose head drips',
      (socket: RawSocket): string => {
        const drip = setInterval(() => {
          if (socket.write('x') <= 0) clearInterval(drip)
        }, 5)
        return 'HTTP/1.1 200 OK\r\nx: '
      },
    ],
    [
      'of nothing but interim heads',
      (socket: RawSocket): string => {
        const drip = setInterval(() => {
          if (socket.write('HTTP/1.1 100 Continue\r\n\r\n') <= 0) clearInterval(drip)
        }, 5)
        return ''
      },
    ],
    [
      'whose body drips',
      (socket: RawSocket): string => {
        const drip = setInterval(() => {
          if (socket.write('x') <= 0) clearInterval(drip)
        }, 5)
        return 'HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n'
      },
    ],
    ['whose body stops', (): string => 'HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\nx'],
  ])('%s is left after the total time', async (_, begin) => {
    const site = server((_path, socket) => begin(socket))
    expect(await refusal(get(site, soon))).toBe(`${NOT_PUBLIC} that can be read, but it did not answer in 150 ms`)
    await until(() => site.open === 0)
  })

  test('that redirects slowly has the same time for all of it', async () => {
    const site = server((_, socket) => {
      setTimeout(() => socket.write(redirect('/')), 60)
      return undefined
    })
    expect(await refusal(get(site, soon))).toContain('did not answer in 150 ms')
  })

  test('of a name server that says nothing is not waited for', async () => {
    expect(
      await refusal(guardedFetch('http://example.com/', outside({ ...soon, resolve: () => new Promise(() => {}) }))),
    ).toContain('did not answer in 150 ms')
  })

  test('that is compressed is refused unread', async () => {
    const bomb = Bun.gzipSync(Buffer.alloc(10_000_000))
    const site = server((_, socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`)
      socket.write(bomb)
      return undefined
    })
    expect(await refusal(get(site, { maxBytes: 20_000_000 }))).toContain('could not be reached')
  })

  test.each([
    [404, 'it answered with status 404'],
    [204, 'it answered with status 204'],
    [206, 'it answered with status 206'],
    [401, 'it answered with status 401'],
    [500, 'it answered with status 500'],
    [304, 'it answered with status 304'],
    [302, 'it answered with status 302'],
  ])('with status %p is none', async (status, why) => {
    const site = server(() => `HTTP/1.1 ${status} X\r\ncontent-length: 0\r\n\r\n`)
    expect(await refusal(get(site))).toBe(`${NOT_PUBLIC} that can be read, but ${why}`)
  })

  test.each([
    ['cut short', 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx'],
    ['that is no HTTP', 'SSH-2.0-OpenSSH_9.6\r\n\r\n'],
    ['of nothing', ''],
    ['with two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx'],
  ])('%s is refused without a word of it', async (_, text) => {
    const site = server((_path, socket) => {
      socket.write(text)
      socket.end()
      return undefined
    })
    expect(await refusal(get(site))).toBe(`${NOT_PUBLIC} that can be read, but it could not be reached`)
  })

  test("that nobody waits for any more is left at once, and is not the client's mistake", async () => {
    const site = server(() => undefined)
    const leaving = new AbortController()
    const call = get(site, { signal: leaving.signal }).catch((error: unknown) => error)
    await until(() => site.requests.length === 1)
    leaving.abort()
    expect(((await call) as GatewayError).code).toBe('upstream_error')
    await until(() => site.open === 0)
    const early = await get(site, { signal: leaving.signal }).catch((error: unknown) => error)
    expect([(early as GatewayError).code, site.connections]).toEqual(['upstream_error', 1])
  })

  test('to a webhook counts by its status, whatever follows', async () => {
    const post = (text: string, then?: 'end'): Promise<number> => {
      const site = server((_, socket) => {
        socket.write(text)
        if (then === 'end') socket.end()
        return undefined
      })
      return guardedPost(`http://${site.host}/`, '{}', {}, outside({ private: [site.host], totalMs: 200 }))
    }
    expect(await post('HTTP/1.1 204 X\r\n\r\n')).toBe(204)
    expect(await post('HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n')).toBe(500)
    expect(await post(`HTTP/1.1 200 X\r\ncontent-length: 9999\r\n\r\n`)).toBe(200)
    expect(await post(`HTTP/1.1 201 X\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n${'x'.repeat(2000)}\r\n`)).toBe(201)
    expect(await post('HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nx', 'end')).toBe(200)
    expect(await post('HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\nx')).toBe(200)
  })
})
