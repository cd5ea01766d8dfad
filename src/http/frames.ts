/**
 * One frame of an event stream. `bare`: JSON that stands in the stream without a `data:` field, as Google's servers append
 * an error after a stream has begun.
 */
export type Frame = { event?: string; data: string; bare?: boolean }
