import { readFile } from 'node:fs/promises'
import { hideSecret } from '../log/secrets.ts'
import { type Answer, answerTo, BucketError, memberOf, refusalOf, textOf } from './bucket-request.ts'

/** A key of the bucket, as it is signed with. `sessionToken`: of temporary credentials. */
type S3Credentials = { accessKeyId: string; secretAccessKey: string; sessionToken?: string }

export type S3Environment = Readonly<Record<string, string | undefined>>

/** The key for the next request, within so many milliseconds. Throws BucketError. */
export type CredentialSource = (limitMs: number) => S3Credentials | Promise<S3Credentials>

/** A key of a role is replaced so long before its end. */
const AHEAD_MS = 300_000

type Temporary = { credentials: S3Credentials; endsAt: number }

/** The value of the first of these variables that has one. */
export const valueIn = (env: S3Environment, ...names: string[]): string | undefined =>
  names.map((name) => env[name]).find((value) => value !== undefined && value !== '')

/**
 * The key in the environment, by the names that S3's own tools read and those of Bun before them; or that of a role,
 * which Kubernetes and containers of AWS name there. Throws an error for the operator where there is neither.
 */
export function credentialsOf(env: S3Environment, region: string, now: () => number): CredentialSource {
  const id = valueIn(env, 'S3_ACCESS_KEY_ID', 'AWS_ACCESS_KEY_ID')
  const secret = valueIn(env, 'S3_SECRET_ACCESS_KEY', 'AWS_SECRET_ACCESS_KEY')
  if (id !== undefined && secret !== undefined) {
    const token = valueIn(env, 'S3_SESSION_TOKEN', 'AWS_SESSION_TOKEN')
    for (const one of [secret, token ?? '']) hideSecret(one)
    const credentials = {
      accessKeyId: id,
      secretAccessKey: secret,
      ...(token === undefined ? {} : { sessionToken: token }),
    }
    return () => credentials
  }
  const [role, file] = [valueIn(env, 'AWS_ROLE_ARN'), valueIn(env, 'AWS_WEB_IDENTITY_TOKEN_FILE')]
  if (role !== undefined && file !== undefined) {
    const service = valueIn(env, 'AWS_ENDPOINT_URL_STS') ?? `https://sts.${region}.amazonaws.com`
    return renewed((limitMs) => ofWebIdentity({ service, role, file }, limitMs), now)
  }
  const path = valueIn(env, 'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI')
  const url = path === undefined ? valueIn(env, 'AWS_CONTAINER_CREDENTIALS_FULL_URI') : `http://169.254.170.2${path}`
  if (url !== undefined) return renewed((limitMs) => ofContainer(url, env, limitMs), now)
  throw new Error(
    'files.store needs the key of the bucket: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the process a ' +
      'role (AWS_ROLE_ARN with AWS_WEB_IDENTITY_TOKEN_FILE, or AWS_CONTAINER_CREDENTIALS_FULL_URI)',
  )
}

/** Asks again shortly before the end. Where that fails, the key that is known serves as long as it is valid. */
function renewed(ask: (limitMs: number) => Promise<Temporary>, now: () => number): CredentialSource {
  let known: Temporary | undefined
  let asking: Promise<Temporary> | undefined
  return async (limitMs) => {
    if (known !== undefined && now() < known.endsAt - AHEAD_MS) return known.credentials
    asking ??= ask(limitMs).finally(() => {
      asking = undefined
    })
    try {
      known = await asking
    } catch (error) {
      if (known === undefined || now() >= known.endsAt) throw error
    }
    return known.credentials
  }
}

type WebIdentity = { service: string; role: string; file: string }

async function ofWebIdentity({ service, role, file }: WebIdentity, limitMs: number): Promise<Temporary> {
  const form = new URLSearchParams({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: role,
    RoleSessionName: 'sluice',
    WebIdentityToken: await tokenIn(file),
  })
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const body = await given({ url: service, method: 'POST', headers, body: form.toString() }, limitMs)
  return temporary((name) => memberOf(body, name === 'Token' ? 'SessionToken' : name))
}

async function ofContainer(url: string, env: S3Environment, limitMs: number): Promise<Temporary> {
  const file = valueIn(env, 'AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE')
  const token = file === undefined ? valueIn(env, 'AWS_CONTAINER_AUTHORIZATION_TOKEN') : await tokenIn(file)
  const headers: Record<string, string> = token === undefined ? {} : { authorization: token }
  const body = await given({ url, method: 'GET', headers }, limitMs)
  try {
    const members = JSON.parse(body) as Record<string, string>
    return temporary((name) => members[name])
  } catch (error) {
    throw error instanceof BucketError ? error : incomplete()
  }
}

async function given(request: Parameters<typeof answerTo>[0], limitMs: number): Promise<string> {
  const answer: Answer = await answerTo(request, limitMs).catch((error: unknown) => {
    throw error instanceof BucketError ? ofRole(error) : error
  })
  if (answer.status >= 300) throw ofRole(refusalOf(answer))
  return textOf(answer.body)
}

const ofRole = (error: BucketError): BucketError =>
  new BucketError(error.failure, `the role gave no key (${error.reason})`, error)

/** Tokens are replaced in their files while the process runs. */
const tokenIn = async (file: string): Promise<string> =>
  (
    await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      throw new BucketError('refused', `the role has no token (${error.code} of its file)`, error)
    })
  ).trim()

function temporary(valueOf: (name: string) => string | undefined): Temporary {
  const [id, secret, token] = ['AccessKeyId', 'SecretAccessKey', 'Token'].map(valueOf)
  const endsAt = Date.parse(valueOf('Expiration') ?? '')
  if (!id || !secret || !token || Number.isNaN(endsAt)) throw incomplete()
  return { credentials: { accessKeyId: id, secretAccessKey: secret, sessionToken: token }, endsAt }
}

const incomplete = (): BucketError => new BucketError('failed', 'the role gave no key (the answer is incomplete)')
