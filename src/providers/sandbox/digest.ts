import { createHash } from 'node:crypto'

/** 24 characters of a digest in base 36: ids that are the same for the same request. */
export const digest = (text: string): string =>
  BigInt(`0x${createHash('sha256').update(text).digest('hex')}`)
    .toString(36)
    .padStart(50, '0')
    .slice(-24)
