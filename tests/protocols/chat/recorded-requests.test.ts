import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import Ajv2020 from 'ajv/dist/2020.js'
import type { GenerationRequest } from '../../../src/generation/request.ts'
import { chat } from '../../../src/protocols/chat/index.ts'
import { withoutPaths, written } from '../../translating.ts'
import { targetOf, type Json } from './building.ts'

/** Requests that were recorded at providers, read and written again. */

const SHARED = new URL('../../../../shared/', import.meta.url).pathname
const INDEX = `${SHARED}recordings/INDEX.jsonl`
describe.skipIf(!existsSync(INDEX))('recorded requests', () => {
  const rows = existsSync(INDEX)
    ? readFileSync(INDEX, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Json)
        .filter((row) => row.protocol === 'openai-chat' && row.files.request !== undefined && row.status < 300)
    : []
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  if (existsSync(INDEX))
    ajv.addSchema(JSON.parse(readFileSync(`${SHARED}specs/schemas/openai-chat.schema.json`, 'utf8')) as object, 'chat')

  test('a recorded request that is read and written again has the same meaning and matches the schema', () => {
    const valid = ajv.getSchema('chat#/$defs/CreateChatCompletionRequest')!
    let checked = 0
    for (const row of rows) {
      const source = JSON.parse(readFileSync(`${SHARED}recordings/${row.files.request}`, 'utf8')) as Json
      // Sluice accepts only n = 1, and a tool that the provider runs is refused across protocols. Strict schemas have
      // tests of their own.
      if (source.n > 1 || source.tools?.some((tool: Json) => tool.type !== 'function')) continue
      const request = chat.serve.readRequest({ body: { model: 'm', ...source }, text: '', headers: new Headers() })
      const { body } = written(
        'chat.completions',
        request,
        targetOf({ maxTokensField: 'max_completion_tokens', customTools: true, reasoningField: 'reasoning_details' }),
      )
      const sent = JSON.parse(JSON.stringify(body)) as Json
      if (!valid(sent)) throw new Error(`${row.id}: ${JSON.stringify(valid.errors?.slice(0, 4))}`)
      const again = chat.serve.readRequest({ body: sent, text: '', headers: new Headers() })
      const plain = ({ tools, toolChoice, sampling, maxOutputTokens, outputFormat, stream }: GenerationRequest) => ({
        tools: tools.map((tool) => ({ ...tool, cache: undefined, strict: undefined })),
        toolChoice,
        sampling: { ...sampling, topK: undefined },
        maxOutputTokens,
        outputFormat,
        stream,
      })
      expect(withoutPaths(plain(again))).toEqual(withoutPaths(plain(request)))
      expect(again.turns.filter((turn) => turn.role !== 'assistant').length).toBeGreaterThanOrEqual(
        request.turns.filter((turn) => turn.role !== 'assistant').length,
      )
      checked++
    }
    expect(checked).toBeGreaterThan(80)
  })
})
