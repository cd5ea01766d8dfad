import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { guardedFetch, guardedPost } from '../../src/http/ssrf-guard.ts'
import { canaries, type Canaries } from './canary.ts'
import { guard, ok, redirect, refusal, server, stopServers } from './guard-kit.ts'
import { LOCAL_URLS } from './local-hosts.ts'
import { until } from './raw-server.ts'

let canary: Canaries
beforeAll(() => {
  canary = canaries()
})
afterAll(() => canary.stop())
afterEach(stopServers)

describe('redirects', () => {
  test('at most three redirects are followed', async () => {
    const site = server((path) => (path === '/0' ? ok('there') : redirect(`/${Number(path.slice(1)) - 1}`)))
    const options = guard({ private: [site.host] })
    const { url } = await guardedFetch(`http://${site.host}/3`, options)
    expect(url).toBe(`http://${site.host}/0`)
    expect(await refusal(guardedFetch(`http://${site.host}/4`, options))).toBe(
      'cannot be used: it redirects more than 3 times',
    )
    expect(site.requests.length).toBe(8)
  })

  test('the body of a redirect is not read', async () => {
    const site = server((path) =>
      path === '/' ? redirect('/2').replace('content-length: 0', 'content-length: 9') : ok('x'),
    )
    await guardedFetch(`http://${site.host}/`, guard({ private: [site.host] }))
    await until(() => site.open === 0)
  })

  test('a redirect to itself is followed three times', async () => {
    const site = server(() => redirect('/'))
    expect(await refusal(guardedFetch(`http://${site.host}/`, guard({ private: [site.host] })))).toContain(
      'redirects more than 3 times',
    )
    expect(site.requests.length).toBe(4)
  })

  test('a redirected request carries no cookies and opens a new connection', async () => {
    const site = server((path) => (path === '/' ? redirect(`http://${site.host}/2`) : ok('x')))
    await guardedFetch(`http://${site.host}/`, guard({ private: [site.host] }))
    expect(site.requests.map((request) => request.replace(/^.*\r\n/, ''))).toEqual(
      Array(2).fill(
        `host: ${site.host}\r\naccept-encoding: identity\r\nconnection: close\r\n` +
          'user-agent: sluice\r\naccept: */*\r\n\r\n',
      ),
    )
    expect(site.connections).toBe(2)
  })

  test('a redirect from a public host to a local one is refused', async () => {
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
      await refusal(guardedFetch(`http://${site.host}/`, guard({ private: [site.host] })))
      expect(site.requests.length - seen, `${status} ${url}`).toBe(1)
    }
    expect(canary.reached).toEqual([])
  })

  test('a redirect of a POST is not followed', async () => {
    const site = server((path) => (path === '/' ? redirect('/2', 307) : ok('x')))
    expect(
      await guardedPost(
        `http://${site.host}/`,
        '{"a":1}',
        { 'content-type': 'application/json', 'webhook-id': 'w1' },
        guard({ private: [site.host] }),
      ),
    ).toBe(307)
    expect(site.requests).toEqual([
      `POST / HTTP/1.1\r\nhost: ${site.host}\r\naccept-encoding: identity\r\nconnection: close\r\n` +
        'user-agent: sluice\r\ncontent-type: application/json\r\nwebhook-id: w1\r\ncontent-length: 7\r\n\r\n{"a":1}',
    ])
  })
})
