import { describe, expect, test } from 'bun:test'
import { Caller } from '../../src/accounts/caller.ts'
import type { Role } from '../../src/accounts/roles.ts'
import { list, object, string } from '../../src/config/shape.ts'
import type { AppContext } from '../../src/context.ts'
import type { GatewayError } from '../../src/error.ts'
import {
  accountFor,
  accountsOf,
  answer,
  checkVersion,
  cursorAfter,
  limitOf,
  nothing,
  positionOf,
  time,
  timeOrNull,
  unknown,
  usd,
  usdOrNull,
  versioned,
} from '../../src/endpoints/management/answer.ts'
import { bodyOf } from '../../src/endpoints/management/body.ts'
import type { ManagementRequest } from '../../src/endpoints/management/route.ts'

const user = { id: 'usr_1', name: 'Ann', email: null, sessionId: 'ses_1', sessionEndsAt: 0 }

function request(query = '', { headers = {}, body = '', roles = [] as Role[], path = '/v1/management/things' } = {}) {
  return {
    request: new Request('http://127.0.0.1/', { method: 'POST', headers, body }),
    path,
    query: new URLSearchParams(query),
    caller: Caller.ofUser(user, roles),
    cursorKey: Buffer.alloc(32),
  } as unknown as ManagementRequest
}

function refusal(run: () => unknown): unknown[] {
  try {
    return [run()]
  } catch (error) {
    const { status, code, param } = error as GatewayError
    return [status, code, param]
  }
}

describe('values', () => {
  test('amounts are decimal strings, instants are ISO 8601 in UTC, and absent ones null', () => {
    expect([usd(1_500_000_000n), usd(1n), usdOrNull(null), usdOrNull(0n)]).toEqual(['1.5', '0.000000001', null, '0'])
    expect([time(0), timeOrNull(null), timeOrNull(1)]).toEqual([
      '1970-01-01T00:00:00.000Z',
      null,
      '1970-01-01T00:00:00.001Z',
    ])
  })

  test('answers are not cached', async () => {
    expect(answer({}).headers.get('cache-control')).toBe('no-store')
    expect([answer({}, 201).status, nothing().status]).toEqual([201, 204])
    expect([unknown('key', 'id').message, unknown('key').param]).toEqual(['No such key.', undefined])
  })
})

describe('versions', () => {
  test('a change takes the ETag of what was read', () => {
    const etag = versioned({ a: 1 }).headers.get('etag')!
    const change = (value: string) =>
      refusal(() => checkVersion(request('', { headers: { 'if-match': value } }), { a: 1 }))
    expect(change(etag)).toEqual([undefined])
    expect(change(`"x", W/${etag}`)).toEqual([undefined])
    expect(change('*')).toEqual([undefined])
    expect(change('"other"')).toEqual([409, 'conflict', undefined])
    expect(refusal(() => checkVersion(request(), { a: 1 }))).toEqual([428, 'precondition_required', undefined])
  })
})

describe('cursors', () => {
  test('a cursor continues the list with the same filters', () => {
    const next = cursorAfter(request('model=a&model=b&limit=5'), ['x', 7])
    expect(positionOf<unknown>(request(`model=a&model=b&limit=9&cursor=${next}`))).toEqual(['x', 7])
    expect(positionOf(request('model=a'))).toBeUndefined()
  })

  test('a cursor of other filters, of another list or changed by hand is refused', () => {
    const next = cursorAfter(request('model=a'), 1)
    for (const other of [
      request(`model=b&cursor=${next}`),
      request(`model=a&cursor=${next}`, { path: '/v1/management/others' }),
      request(`model=a&cursor=Mg${next.slice(2)}`),
      request('model=a&cursor='),
    ])
      expect(refusal(() => positionOf(other))).toEqual([400, 'invalid_request', 'cursor'])
  })

  test('the limit of a page is from 1 to 200, and 50 without one', () => {
    expect([limitOf(request()), limitOf(request('limit=200'))]).toEqual([50, 200])
    for (const text of ['0', '201', '-1', '1.5', 'x', ''])
      expect(refusal(() => limitOf(request(`limit=${text}`)))).toEqual([400, 'invalid_request', 'limit'])
  })
})

describe('bodies', () => {
  const shape = object({ name: string({ what: 'a name' }), tags: list(string({ what: 'a tag' }), { what: 'tags' }) })
  const json = { 'content-type': 'application/json; charset=utf-8' }
  const read = (body: string, headers: Record<string, string> = json) =>
    bodyOf(request('', { body, headers }), shape).then(
      ({ name, tags }): unknown => [name, tags?.map(({ value }) => value)],
      ({ status, message, param }: GatewayError) => [status, param, message],
    )

  test('a body is read by a shape of sluice.yaml, without variables of the environment', async () => {
    expect(await read('{"name": "${HOME}", "tags": ["a", "${X:-y}"]}')).toEqual(['${HOME}', ['a', '${X:-y}']])
  })

  test('a wrong body is refused with the path of what is wrong', async () => {
    expect(await read('{"tags": ["a", 5]}')).toEqual([400, 'tags[1]', expect.stringContaining('must be a tag')])
    expect(await read('{"nam": "x"}')).toEqual([400, 'body', expect.stringContaining('did you mean name?')])
    expect(await read('{"name": "x", "name": "y"}')).toEqual([400, 'body', expect.stringContaining('twice')])
    expect(await read('{\n  name: x\n}')).toEqual([
      400,
      'body',
      expect.stringMatching(/is not valid JSON at line 2, column 3 /),
    ])
    expect(await read('[]')).toEqual([400, 'body', expect.stringContaining('must be a mapping')])
    expect(await read('{}', { 'content-type': 'text/plain' })).toEqual([415, undefined, expect.anything()])
  })
})

describe('accounts', () => {
  const names: Record<string, string> = { acct_1: 'one', acct_2: 'two', acct_3: 'three' }
  const find = async (wanted: string) => {
    const entry = Object.entries(names).find(([id, name]) => id === wanted || name === wanted)
    return entry && { id: entry[0], name: entry[1] }
  }
  const app = { store: { accounts: { find } } } as unknown as AppContext
  const roles: Role[] = [
    { scope: 'acct_1', role: 'viewer' },
    { scope: 'acct_2', role: 'member' },
  ]

  test('a list without account= is about everything that the caller may see', async () => {
    expect(await accountsOf(app, request('', { roles }), 'requests.read')).toEqual({
      accounts: ['acct_1'],
      own: ['acct_2'],
    })
    const owner: Role[] = [{ scope: 'installation', role: 'owner' }]
    expect(await accountsOf(app, request('', { roles: owner }), 'requests.read')).toEqual({
      accounts: undefined,
      own: [],
    })
  })

  test('account= narrows by id or name, and an account of others is an unknown one', async () => {
    expect(await accountsOf(app, request('account=two&account=acct_1', { roles }), 'requests.read')).toEqual({
      accounts: ['acct_1'],
      own: ['acct_2'],
    })
    const messages = await Promise.all(
      ['three', 'nothing'].map((name) =>
        accountsOf(app, request(`account=${name}`, { roles }), 'requests.read').catch(
          ({ status, message, param }: GatewayError) => [status, message, param],
        ),
      ),
    )
    expect(messages[0]).toEqual([404, 'No such account.', 'account'])
    expect(messages[0]).toEqual(messages[1])
  })

  test('an action without the role is a 403 where the account may be seen, and a 404 where not', async () => {
    const refused = (name: string) =>
      accountFor(app, request('', { roles }), name, 'accounts.change').catch(({ status }: GatewayError) => status)
    expect(await Promise.all([refused('one'), refused('three'), refused('nothing')])).toEqual([403, 404, 404])
    expect(await accountFor(app, request('', { roles }), 'two', 'keys.change')).toMatchObject({ id: 'acct_2' })
  })
})
