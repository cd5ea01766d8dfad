import type { Config } from '../config/load.ts'
import { asGatewayError, GatewayError } from '../error.ts'
import { splice } from '../json/edit.ts'
import type { CallSignal } from '../http/connection.ts'
import { guardedFetch, hostAndPort } from '../http/ssrf-guard.ts'
import { isObject } from '../protocols/fields.ts'
import { dataOf, imageOf, mediaTypeOf } from '../protocols/images/shapes.ts'
import { parseAnswer, type Upstream } from './attempt.ts'

/** All images of one answer together. */
const IMAGES_BYTES = 48 * 1024 * 1024
const FETCH_MS = 60_000

/**
 * An answer of the images API with the images themselves in the place of their provider's addresses, which clients
 * never see.
 * Throws upstream_error for an address under which there is no image.
 */
export async function fetchImages(
  text: string,
  { endpoint }: Upstream,
  { fetch }: Config,
  signal: CallSignal,
): Promise<string> {
  if (!text.includes('"url"')) return text
  const data = dataOf(parseAnswer(text))
  if (data === undefined || !data.some(hasAddress)) return text
  // A provider of the operator's own network serves its images there.
  const outside = {
    private: [...fetch.private, hostAndPort(new URL(endpoint.baseUrl))],
    maxBytes: Math.floor(IMAGES_BYTES / data.length),
    totalMs: FETCH_MS,
    signal,
  }
  const images = await Promise.all(
    data.map(async (image: unknown) => {
      if (!hasAddress(image)) return image
      const { url, ...rest } = image
      return imageOf(rest) === undefined ? { ...rest, b64_json: await imageAt(url, outside) } : rest
    }),
  )
  return splice(text, { data: JSON.stringify(images) })
}

const hasAddress = (image: unknown): image is { url: string } & Record<string, unknown> =>
  isObject(image) && typeof image.url === 'string' && image.url !== ''

async function imageAt(url: string, outside: Parameters<typeof guardedFetch>[1]): Promise<string> {
  const data = url.startsWith('data:') ? url.slice(url.indexOf(',') + 1) : await fetched(url, outside)
  if (mediaTypeOf(data) === undefined)
    throw new GatewayError('upstream_error', 'The provider answered with an address under which there is no image.')
  return data
}

async function fetched(url: string, outside: Parameters<typeof guardedFetch>[1]): Promise<string> {
  const { bytes } = await guardedFetch(url, outside).catch((error: unknown) => {
    throw new GatewayError(
      'upstream_error',
      `The provider answered with an address from which its image could not be fetched: it ${asGatewayError(error).message}`,
      { cause: error },
    )
  })
  return Buffer.from(bytes).toString('base64')
}
