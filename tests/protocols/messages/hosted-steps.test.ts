import { expect, test } from 'bun:test'
import { fold } from '../../../src/generation/event.ts'
import { readResponse } from '../../../src/protocols/messages/read-response.ts'
import type { Any } from './kit.ts'

/** Steps of the tools that the provider ran for a response. */

test('a response has the steps of tools that the provider ran, which failed or not', () => {
  const ran = (content: Any): Any => ({ type: 'code_execution_tool_result', tool_use_id: 'c', content })
  const answered = (is_error: boolean): Any => ({ type: 'mcp_tool_result', tool_use_id: 'm', is_error, content: 'x' })
  const content = [
    ran({ type: 'code_execution_tool_result_error', error_code: 'unavailable' }),
    ran({ type: 'code_execution_result', stdout: '', stderr: 'no', return_code: 1 }),
    ran({ type: 'code_execution_result', stdout: '1', stderr: '', return_code: 0 }),
    answered(true),
    answered(false),
  ]
  const { parts: read } = fold(readResponse({ content, stop_reason: 'end_turn' }))
  const failed = [true, true, false, true, false]
  expect(read).toMatchObject(failed.map((one) => ({ type: 'native', steps: [{ failed: one }] })))
})

test('a response has the code of each tool that runs it', () => {
  const run = (name: string, input: Any): Any => ({ type: 'server_tool_use', id: 'c', name, input })
  const content = [
    run('code_execution', { code: 'a' }),
    run('bash_code_execution', { command: 'b' }),
    run('text_editor_code_execution', { path: 'c' }),
  ]
  const { parts: read } = fold(readResponse({ content, stop_reason: 'end_turn' }))
  const codes = ['a', 'b', '{"path":"c"}']
  expect(read).toMatchObject(codes.map((code) => ({ type: 'native', steps: [{ type: 'code', id: 'c', code }] })))
})
