import type { HostedStep, HostedTool } from '../../generation/request.ts'
import { isObject, stringOf } from '../../json/parse.ts'
import { snakeCase } from '../fields.ts'
import type { GeminiPart } from './shapes.ts'

/** Tools that Google runs, in the terms of all protocols. */

/** Undefined for another kind of tool. */
export const hostedTool = (kind: string): HostedTool[] | undefined =>
  kind === 'codeExecution' ? [{ type: 'code' }] : undefined

/** Undefined for a tool that Google does not run. */
export const writeHostedTool = ({ type }: HostedTool): Record<string, unknown> | undefined =>
  type === 'code' ? { codeExecution: {} } : undefined

/** The steps in a part; undefined where it has none. `id`: of a step without one. */
export function stepsOf(kind: string, part: unknown, id = ''): HostedStep[] | undefined {
  const inner = isObject(part) ? (part[kind] ?? part[snakeCase(kind)]) : undefined
  if (!isObject(inner)) return undefined
  const own = typeof inner.id === 'string' && inner.id !== '' ? inner.id : id
  if (kind === 'executableCode') return [{ type: 'code', id: own, code: stringOf(inner.code) }]
  if (kind !== 'codeExecutionResult') return undefined
  const failed = typeof inner.outcome === 'string' && inner.outcome !== 'OUTCOME_OK'
  return [{ type: 'code-result', id: own, output: stringOf(inner.output), failed }]
}

/** The part of a step that another provider reports; undefined where Google has none. */
export function writeStep(step: HostedStep): GeminiPart | undefined {
  const id = step.id === '' ? {} : { id: step.id }
  switch (step.type) {
    case 'code':
      return { executableCode: { ...id, language: 'PYTHON', code: step.code } }
    case 'code-result':
      return {
        codeExecutionResult: { ...id, outcome: step.failed ? 'OUTCOME_FAILED' : 'OUTCOME_OK', output: step.output },
      }
    default:
      return undefined
  }
}
