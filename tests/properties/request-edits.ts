import type { GenerationRequest, Part, ToolResultPart } from '../../src/generation/request.ts'

/** Changes of generation requests, made of smaller ones. */

export type Edit = (request: GenerationRequest) => GenerationRequest

export const inOrder =
  (...edits: Edit[]): Edit =>
  (request) =>
    edits.reduce((edited, edit) => edit(edited), request)

/** Replaces each part of the instructions, of the turns and of the tool results. */
export const everyPart =
  (replace: (part: Part) => Part[]): Edit =>
  (request) => {
    const replaced = (parts: Part[]): Part[] =>
      parts
        .flatMap(replace)
        .map((part) =>
          part.type === 'tool-result'
            ? { ...part, content: part.content.flatMap(replace) as ToolResultPart['content'] }
            : part,
        )
    return {
      ...request,
      system: replaced(request.system),
      turns: request.turns.map((turn) => ({ ...turn, parts: replaced(turn.parts) })),
    }
  }

export const without = <T extends object>(value: T, ...names: string[]): T =>
  Object.fromEntries(Object.entries(value).filter(([name]) => !names.includes(name))) as T

export const withoutFields =
  (...names: (keyof GenerationRequest)[]): Edit =>
  (request) =>
    without(request, ...names)

export const withoutSampling =
  (...names: (keyof GenerationRequest['sampling'])[]): Edit =>
  (request) => ({ ...request, sampling: without(request.sampling, ...names) })

export const withoutInParts = (...names: string[]): Edit => everyPart((part) => [without(part, ...names)])

export const withoutInTools =
  (...names: string[]): Edit =>
  (request) => ({ ...request, tools: request.tools.map((tool) => without(tool, ...names)) })

export const withoutReasoning =
  (...names: (keyof NonNullable<GenerationRequest['reasoning']>)[]): Edit =>
  (request) =>
    request.reasoning === undefined ? request : { ...request, reasoning: without(request.reasoning, ...names) }
