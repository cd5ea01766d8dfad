import type { GenerationResponse, FinishReason } from '../../src/generation/event.ts'
import type { Citation, Part, TextPart } from '../../src/generation/request.ts'
import type { LossCode } from '../../src/protocols/loss-codes.ts'
import { present } from './answers.ts'

/**
 * A difference between a response and what is read of it after it was written in a protocol. `loss`: reported whenever
 * there is such a difference; undefined if only the form differs.
 */
export type Change = {
  name: string
  loss?: readonly [code: LossCode, path: string]
  make(answer: GenerationResponse): GenerationResponse
}

export const parts =
  (change: (part: Part, index: number, all: Part[]) => Part[]) =>
  (answer: GenerationResponse): GenerationResponse => ({ ...answer, parts: answer.parts.flatMap(change) })
export const texts = (change: (part: TextPart, index: number, all: Part[]) => Part[]) =>
  parts((part, index, all) => (part.type === 'text' ? change(part, index, all) : [part]))
export const citations = (change: (citation: Citation, of: TextPart, index: number, all: Part[]) => Citation[]) =>
  texts((part, index, all) => {
    const { citations: cited = [], ...rest } = part
    const kept = cited.flatMap((one) => change(one, part, index, all))
    return [kept.length === 0 ? rest : { ...rest, citations: kept }]
  })
export const usage =
  (change: (usage: GenerationResponse['usage']) => Partial<GenerationResponse['usage']>) =>
  (answer: GenerationResponse): GenerationResponse =>
    answer.metered ? { ...answer, usage: { ...answer.usage, ...change(answer.usage) } } : answer
export const finish =
  (reasons: Partial<Record<FinishReason, FinishReason>>) =>
  (answer: GenerationResponse): GenerationResponse => ({
    ...answer,
    finish: { ...answer.finish, reason: reasons[answer.finish.reason] ?? answer.finish.reason },
  })
export const isRefused = ({ parts: all }: GenerationResponse): boolean => all.some(({ type }) => type === 'refusal')

/**
 * A response as it is compared: without ids of reasoning, a protocol's own form of a citation and its own finish
 * reason.
 */
export const comparable = (answer: GenerationResponse): GenerationResponse => ({
  ...citations(({ native: _, ...rest }) => [rest])(
    parts((part) => {
      if (part.type === 'native') return [{ ...part, steps: undefined }]
      if (part.type !== 'reasoning') return [part]
      const { id: _, ...rest } = part
      return [rest]
    })(answer),
  ),
  finish: present({ ...answer.finish, raw: '', details: undefined }),
})

/** Adjacent parts of one type are one part where the protocol has no boundary between them. */
export const joined = (isBoundary: (before: Part, part: Part) => boolean): Change => ({
  name: 'joined',
  make: (answer) => ({
    ...answer,
    parts: answer.parts.reduce<Part[]>((all, part) => {
      const before = all.at(-1)
      return before !== undefined && before.type === part.type && !isBoundary(before, part)
        ? [...all.slice(0, -1), together(before, part)]
        : [...all, part]
    }, []),
  }),
})

function together(before: Part, part: Part): Part {
  if (before.type === 'reasoning' && part.type === 'reasoning') return { ...part, text: before.text + part.text }
  if (before.type === 'refusal' && part.type === 'refusal') return { type: 'refusal', text: before.text + part.text }
  if (before.type !== 'text' || part.type !== 'text') return part
  const shift = before.text.length
  const cited = [
    ...(before.citations ?? []),
    ...(part.citations ?? []).map((one) =>
      one.start === undefined ? one : { ...one, start: one.start + shift, end: one.end! + shift },
    ),
  ]
  const scored = [...(before.logprobs ?? []), ...(part.logprobs ?? [])]
  return {
    type: 'text',
    text: before.text + part.text,
    ...(cited.length === 0 ? {} : { citations: cited }),
    ...(scored.length === 0 ? {} : { logprobs: scored }),
  }
}
