import type { Config } from '../config/load.ts'
import { asGatewayError, GatewayError } from '../error.ts'
import { splice } from '../json/edit.ts'
import type { CallSignal } from '../http/connection.ts'
import { guardedFetch, hostAndPort } from '../http/ssrf-guard.ts'
import { isObject } from '../json/parse.ts'
import { dataOf, imageOf, mediaTypeOf } from '../protocols/images/shapes.ts'
import { parseResponse, type Upstream } from './attempt.ts'

/** Limit on all images of one response together. */
const IMAGES_BYTES = 48 * 1024 * 1024
const FETCH_MS = 60_000

/**
 * A response of the images API with the images in base64 instead of the provider's URLs, which clients never see.
 * Throws upstream_error for a URL without an image, and for far too many images, which are not billed.
 */
export async function fetchImages(
  text: string,
  { endpoint }: Upstream,
  { fetch }: Config,
  signal: CallSignal,
): Promise<string> {
  const data = dataOf(parseResponse(text))
  if (data === undefined || !data.some(hasUrl)) return text
  // A provider in the operator's own network serves its images there, too.
  const fetchOptions = {
    private: [...fetch.private, hostAndPort(new URL(endpoint.baseUrl))],
    maxBytes: Math.floor(IMAGES_BYTES / data.length),
    totalMs: FETCH_MS,
    signal,
  }
  const images = await Promise.all(
    data.map(async (image: unknown) => {
      if (!hasUrl(image)) return image
      const { url, ...rest } = image
      return imageOf(rest) === undefined ? { ...rest, b64_json: await imageAt(url, fetchOptions) } : rest
    }),
  )
  return splice(text, { data: JSON.stringify(images) })
}

const hasUrl = (image: unknown): image is { url: string } & Record<string, unknown> =>
  isObject(image) && typeof image.url === 'string' && image.url !== ''

async function imageAt(url: string, fetchOptions: Parameters<typeof guardedFetch>[1]): Promise<string> {
  const data = url.startsWith('data:') ? url.slice(url.indexOf(',') + 1) : await fetchBase64(url, fetchOptions)
  if (mediaTypeOf(data) === undefined)
    throw new GatewayError('upstream_error', 'The provider responded with a URL without an image.')
  return data
}

async function fetchBase64(url: string, fetchOptions: Parameters<typeof guardedFetch>[1]): Promise<string> {
  const { bytes } = await guardedFetch(url, fetchOptions).catch((error: unknown) => {
    throw new GatewayError(
      'upstream_error',
      `The provider responded with a URL that could not be fetched: it ${asGatewayError(error).message}`,
      { cause: error },
    )
  })
  return Buffer.from(bytes).toString('base64')
}
