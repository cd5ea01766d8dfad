import { citationsOf, piecesOf, type Json, type ProviderResponse, type Reply, textOf, TOOL } from './reply.ts'

/** The response of a provider of generateContent. */
export function geminiResponse(reply: Reply): ProviderResponse {
  const { usage } = reply
  const finishReason = {
    stop: 'STOP',
    'stop-sequence': 'STOP',
    length: 'MAX_TOKENS',
    'tool-calls': 'STOP',
    refusal: 'SAFETY',
  }[reply.finish]
  const usageMetadata = {
    promptTokenCount: usage.prompt,
    cachedContentTokenCount: usage.cached,
    candidatesTokenCount: usage.completion - usage.reasoning,
    thoughtsTokenCount: usage.reasoning,
    totalTokenCount: usage.prompt + usage.completion,
  }
  // The signature of reasoning is on the part after it, and of several calls on the first only.
  let signature: string | undefined
  const parts = reply.parts.flatMap((part): Json[] => {
    const signed = signature === undefined ? {} : { thoughtSignature: signature }
    if (part.type !== 'reasoning') signature = undefined
    switch (part.type) {
      case 'reasoning':
        signature = part.signature
        return [{ text: part.text, thought: true }]
      // A call is sent whole or not at all.
      case 'call':
        return isWhole(part.args || '{}')
          ? [{ functionCall: { name: part.name ?? TOOL, args: JSON.parse(part.args || '{}') as object }, ...signed }]
          : []
      default:
        return [{ text: part.text, ...signed }]
    }
  })
  const head = { modelVersion: 'up', responseId: 'gresp-up' }
  const joined = joinTexts(parts)
  const last = { finishReason, index: 0, ...groundingOf(reply) }
  return {
    whole: {
      candidates: [{ ...(joined.length === 0 ? {} : { content: { role: 'model', parts: joined } }), ...last }],
      usageMetadata,
      ...head,
    },
    frames: [
      ...joined
        .flatMap((part) =>
          typeof part.text === 'string' && part.thoughtSignature === undefined
            ? piecesOf(part.text).map((piece) => ({ ...part, text: piece }))
            : [part],
        )
        .map((part) => ({ candidates: [{ content: { role: 'model', parts: [part] }, index: 0 }], ...head })),
      { candidates: [last], usageMetadata, ...head },
    ],
  }
}

function groundingOf(reply: Reply): object {
  const text = textOf(reply)
  const cites = citationsOf(reply)
  return cites.length === 0
    ? {}
    : {
        groundingMetadata: {
          groundingChunks: cites.map(({ url, title }) => ({ web: { uri: url, title } })),
          groundingSupports: cites.map(({ passage, start, end }, index) => ({
            segment: {
              startIndex: Buffer.byteLength(text.slice(0, start)),
              endIndex: Buffer.byteLength(text.slice(0, end)),
              text: passage,
            },
            groundingChunkIndices: [index],
          })),
        },
      }
}

const isWhole = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Joins adjacent texts into one part. */
const joinTexts = (parts: Json[]): Json[] =>
  parts.reduce<Json[]>((joined, part) => {
    const before = joined.at(-1)
    const joins =
      typeof part.text === 'string' &&
      typeof before?.text === 'string' &&
      part.thought === before.thought &&
      before.thoughtSignature === undefined &&
      part.thoughtSignature === undefined
    return joins
      ? [...joined.slice(0, -1), { ...before, text: `${before.text as string}${part.text as string}` }]
      : [...joined, part]
  }, [])
