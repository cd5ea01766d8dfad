import { expect, test } from 'bun:test'
import type { ConversationName } from '../../src/generation/request.ts'
import { contextOf, HELLO, type Json, ROUTES, sendTo } from './routes.ts'
import { callsAndResultsOf, spelled, toolChoiceOf, toolsOf } from './tool-requests.ts'
import { callsReceived } from './tool-responses.ts'

/** Names of tools that a client's protocol accepts and a provider's does not. */

/** Names that providers refuse; two of them differ only at the end. */
const ODD = [`find.place/${'x'.repeat(130)}1`, `find.place/${'x'.repeat(130)}2`, '9 lives', 'plain']
const ODD_OF_GEMINI = [...ODD.slice(0, 2), 'a.b:c', 'plain']

const namesIn: Record<ConversationName, (body: Json) => { tools: string[]; calls: string[] }> = {
  'chat.completions': (body) => ({
    tools: body.tools.map((tool: Json) => tool.function.name),
    calls: body.messages[1].tool_calls.map((call: Json) => call.function.name),
  }),
  responses: (body) => ({
    tools: body.tools.map((tool: Json) => tool.name),
    calls: body.input.filter((item: Json) => item.type === 'function_call').map((item: Json) => item.name),
  }),
  messages: (body) => ({
    tools: body.tools.map((tool: Json) => tool.name),
    calls: body.messages[1].content.map((block: Json) => block.name),
  }),
  generateContent: (body) => ({
    tools: body.tools[0].functionDeclarations.map((tool: Json) => tool.name),
    calls: body.contents[1].parts.map((part: Json) => part.functionCall.name),
  }),
}

/** The names that the vendors' documents allow. */
const GRAMMAR: Record<ConversationName, RegExp> = {
  'chat.completions': /^[\w-]{1,64}$/,
  responses: /^[\w-]{1,64}$/,
  messages: /^[\w-]{1,128}$/,
  generateContent: /^[A-Za-z_][\w.:-]{0,63}$/,
}

const chosenIn: Record<ConversationName, (body: Json) => string> = {
  'chat.completions': (body) => body.tool_choice.function.name,
  responses: (body) => body.tool_choice.name,
  messages: (body) => body.tool_choice.name,
  generateContent: (body) => body.toolConfig.functionCallingConfig.allowedFunctionNames[0],
}

test.each(ROUTES)('tool names of %s are replaced for %s, stay distinct and are restored', (client, provider) => {
  const names = client === 'generateContent' ? ODD_OF_GEMINI : ODD
  const context = contextOf(
    client,
    spelled({
      ...HELLO[client],
      ...toolsOf[client](names.map((name) => ({ name }))),
      ...callsAndResultsOf[client](names.map((name) => ({ name, args: '{}' }))),
      ...toolChoiceOf[client](names[1]!),
    }),
  )
  const { body } = sendTo(provider, context)
  const sent = namesIn[provider](body)
  expect(sent.calls).toEqual(sent.tools)
  expect(new Set(sent.tools).size).toBe(names.length)
  for (const name of sent.tools) expect(name).toMatch(GRAMMAR[provider])
  expect(sent.tools[3]).toBe('plain')
  expect(chosenIn[provider](body)).toBe(sent.tools[1]!)

  const calls = sent.tools.map((name) => ({ name, args: '{}' }))
  const { whole, stream } = callsReceived(client, provider, context, calls)
  expect(whole.map(({ name }) => name)).toEqual(names)
  expect(stream.map(({ name }) => name)).toEqual(names)
})

test.each(ROUTES)(
  'the changed name of a call of %s is reported for %s where its tool is not listed',
  (client, provider) => {
    const long = `find_${'x'.repeat(130)}`
    const calls = callsAndResultsOf[client](['plain', long].map((name) => ({ name, args: '{}' })))
    const body = spelled({ ...HELLO[client], ...toolsOf[client]([{ name: 'plain' }]), ...calls })
    const { losses } = sendTo(provider, contextOf(client, body))
    const renamed = losses.filter(({ code }) => code === 'tool_renamed').map(({ path }) => path)
    expect(renamed).toEqual([
      {
        'chat.completions': 'messages[1].tool_calls[1].function.name',
        responses: 'input[2].name',
        messages: 'messages[1].content[1].name',
        generateContent: 'contents[1].parts[1].functionCall.name',
      }[client],
    ])
  },
)
