import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Bucket } from '../../src/files/bucket.ts'
import { failure } from './records.ts'
import { fault, S3_KEY, type S3Server, startS3 } from './s3-server.ts'

const cleanups: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

const HOUR_MS = 3_600_000

type Service = {
  env: Record<string, string>
  tokenFile: string
  asked: { authorization: string | null; form: Record<string, string> }[]
  failing: (() => Response) | undefined
  now: () => number
  advance(ms: number): void
}

/** A service that gives the key of the bucket for an hour, as web identity (`xml`) or to containers (`json`). */
function startService(format: 'xml' | 'json', s3: S3Server): Service {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-role-'))
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, 'first-token\n')
  let at = Date.now()
  const state: Pick<Service, 'asked' | 'failing'> = { asked: [], failing: undefined }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const form = Object.fromEntries(new URLSearchParams(await request.text()))
      state.asked.push({ authorization: request.headers.get('authorization'), form })
      if (state.failing !== undefined) return state.failing()
      const [id, secret, until] = [S3_KEY.id, S3_KEY.secret, new Date(at + HOUR_MS).toISOString()]
      if (format === 'json')
        return Response.json({ AccessKeyId: id, SecretAccessKey: secret, Token: 'session-1', Expiration: until })
      return new Response(
        `<AssumeRoleWithWebIdentityResponse><Credentials><AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}` +
          `</SecretAccessKey><SessionToken>session-1</SessionToken><Expiration>${until}</Expiration></Credentials>` +
          '</AssumeRoleWithWebIdentityResponse>',
      )
    },
  })
  cleanups.push(
    () => rmSync(folder, { recursive: true, force: true }),
    () => server.stop(true),
  )
  const { AWS_ENDPOINT_URL = '', AWS_REGION = '' } = s3.env
  const role: Record<string, string> =
    format === 'xml'
      ? {
          AWS_ROLE_ARN: 'arn:aws:iam::1:role/files',
          AWS_WEB_IDENTITY_TOKEN_FILE: tokenFile,
          AWS_ENDPOINT_URL_STS: server.url.origin,
        }
      : {
          AWS_CONTAINER_CREDENTIALS_FULL_URI: `${server.url.origin}/v1/credentials`,
          AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: tokenFile,
        }
  return Object.assign(state, {
    env: { AWS_ENDPOINT_URL, AWS_REGION, ...role },
    tokenFile,
    now: () => at,
    advance: (ms: number) => void (at += ms),
  })
}

describe.each(['xml', 'json'] as const)('the key of a role (%s)', (format) => {
  const opened = (): { s3: S3Server; service: Service; bucket: Bucket } => {
    const s3 = startS3()
    cleanups.push(() => s3.stop())
    const service = startService(format, s3)
    const bucket = new Bucket({ location: { bucket: 'files' }, env: service.env, now: service.now })
    return { s3, service, bucket }
  }

  test('is asked for once, with the token, and replaced shortly before its end', async () => {
    const { s3, service, bucket } = opened()
    await Promise.all(Array.from({ length: 5 }, (_, at) => bucket.put(`a/${at}`, new Uint8Array(3))))
    expect(service.asked).toEqual([
      format === 'xml'
        ? {
            authorization: null,
            form: {
              Action: 'AssumeRoleWithWebIdentity',
              Version: '2011-06-15',
              RoleArn: 'arn:aws:iam::1:role/files',
              RoleSessionName: 'sluice',
              WebIdentityToken: 'first-token',
            },
          }
        : { authorization: 'first-token', form: {} },
    ])
    expect([s3.objects.size, s3.tokens]).toEqual([5, new Set(['session-1'])])
    service.advance(HOUR_MS - 301_000)
    await bucket.get('a/0')
    expect(service.asked.length).toBe(1)
    writeFileSync(service.tokenFile, 'second-token')
    service.advance(2_000)
    await bucket.get('a/0')
    const { authorization, form } = service.asked[1]!
    expect(authorization ?? form['WebIdentityToken']).toBe('second-token')
  })

  test('serves until its end where there is no other, and then the bucket is away', async () => {
    const { service, bucket } = opened()
    await bucket.put('a/0', new Uint8Array(3))
    service.failing = () => fault(403, 'AccessDenied')
    service.advance(HOUR_MS - 1_000)
    expect((await bucket.get('a/0'))?.length).toBe(3)
    service.advance(2_000)
    const reason = 'the role gave no key (AccessDenied)'
    expect(await failure(bucket.get('a/0'))).toMatchObject({ failure: 'refused', reason })
    expect(bucket.health.outage).toBe(reason)
    service.failing = undefined
    await bucket.get('a/0')
    expect(bucket.health.outage).toBeUndefined()
  })

  test('is an error without secrets, where the answer or the token is not right', async () => {
    const { service, bucket } = opened()
    service.failing = () => new Response('{"AccessKeyId": "secret"}')
    expect(await failure(bucket.get('a'))).toMatchObject({ reason: 'the role gave no key (the answer is incomplete)' })
    service.failing = () => new Response('secret')
    expect(await failure(bucket.get('a'))).toMatchObject({ reason: 'the role gave no key (the answer is incomplete)' })
    rmSync(service.tokenFile)
    expect(await failure(bucket.get('a'))).toMatchObject({ reason: 'the role has no token (ENOENT of its file)' })
  })
})
