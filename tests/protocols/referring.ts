import { GatewayError } from '../../src/error.ts'
import type { ProviderReference, MediaReference, MediaData } from '../../src/protocols/protocol.ts'
import { replaceAt } from '../../src/json/edit.ts'

/** Media references as text, and bodies with their media inlined. */

export const PNG: MediaData = { mediaType: 'image/png', data: 'iVBORw==', filename: 'a.png' }
export const PDF: MediaData = { mediaType: 'application/pdf', data: 'JVBERi0=', filename: 'a.pdf' }
export const TXT: MediaData = {
  mediaType: 'text/plain',
  data: Buffer.from('hällo').toString('base64'),
  filename: 'a.txt',
}
export const WAV: MediaData = { mediaType: 'audio/wav', data: 'UklGRg==', filename: 'a.wav' }

type Body = Record<string, unknown>

export type Found = (MediaReference | ProviderReference)[]

export const isMedia = (reference: Found[number]): reference is MediaReference => reference.source.type !== 'provider'

export const found = (references: Found): string[] =>
  references.map((reference) => {
    if (!isMedia(reference)) return `${reference.param} <- ${reference.source.what} of a provider`
    const { param, source, kind } = reference
    return `${param} <- ${source.type === 'file' ? source.id : source.url}${kind === undefined ? '' : ` (${kind})`}`
  })

/** The value at a path after every reference of the body is replaced by this medium. */
export function inlined(
  references: (body: Body) => Found,
  body: Body,
  medium: MediaData,
  at: (string | number)[],
): unknown {
  const text = replaceAt(
    JSON.stringify(body),
    references(body)
      .filter(isMedia)
      .map(({ path, inline }) => ({ path, value: JSON.stringify(inline(medium)) })),
  )
  return at.reduce<unknown>((value, step) => (value as Record<string | number, unknown>)[step], JSON.parse(text))
}

/** Status and parameter of the error that `work` throws. */
export function problemOf(work: () => unknown): [status: number, param: string | undefined] {
  try {
    work()
  } catch (error) {
    if (error instanceof GatewayError) return [error.status, error.param]
    throw error
  }
  throw new Error('nothing was refused')
}
