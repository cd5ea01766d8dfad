import { describe, expect, test } from 'bun:test'
import { read } from './fixtures.ts'

const user = (part: object): object => ({ role: 'user', content: [part] })
const search = { type: 'tool_search', execution: 'client' }

describe('a request is refused that lacks', () => {
  test.each([
    ['the kind of an item', {}, 'type: is required: the kind of item'],
    ['the role of a message', { type: 'message' }, 'role: is required: user, assistant, system or developer'],
    ['a content', { role: 'user' }, 'content: is required: a string or an array of content parts'],
    ['the kind of a content', user({}), 'content[0].type: is required: the kind of content part'],
    ['a text', user({ type: 'input_text' }), 'content[0].text: is required: a string'],
    ['a refusal', user({ type: 'refusal' }), 'content[0].refusal: is required: the text of the refusal'],
    ['an encrypted text', user({ type: 'encrypted_content' }), 'content[0].encrypted_content: is required: a string'],
    ['an image', user({ type: 'input_image' }), 'content[0]: must have one of image_url or file_id'],
    ['the id of an image', user({ type: 'input_image', file_id: '' }), 'content[0]: must have one of image_url or'],
    ['a file', user({ type: 'input_file' }), 'content[0]: must have one of file_data, file_url or file_id'],
    [
      'the audio of a content',
      user({ type: 'input_audio' }),
      'content[0].input_audio: is required: an object with data and format',
    ],
    [
      'the data of an audio',
      user({ type: 'input_audio', input_audio: { format: 'wav' } }),
      'content[0].input_audio.data: is required: base64 audio',
    ],
    [
      'the format of an audio',
      user({ type: 'input_audio', input_audio: { data: 'aGk=' } }),
      'content[0].input_audio.format: is required: the audio format',
    ],
    ['a video', user({ type: 'input_video' }), 'content[0].video_url: is required: a URL or a base64 data URL'],
    ['the id of a referenced item', { type: 'item_reference' }, 'id: is required: the id of an earlier item'],
    ['the id of a call', { type: 'function_call' }, 'call_id: is required: the id that the output refers to'],
    ['the name of a call', { type: 'function_call', call_id: 'c' }, 'name: is required: the name of the called tool'],
    ['arguments', { type: 'function_call', call_id: 'c', name: 'f' }, 'arguments: is required: a JSON string'],
    ['an input', { type: 'custom_tool_call', call_id: 'c', name: 'f' }, 'input: is required: a string'],
    ['the call of an output', { type: 'function_call_output', output: '' }, 'call_id: is required: the id of the call'],
    ['a summary', { type: 'reasoning', summary: [{}] }, 'summary[0].text: is required: a string'],
  ])('%s', (_, item, message) => {
    expect(() => read({ input: [item] })).toThrow(`input[0].${message}`)
  })

  test.each<[string, object, string]>([
    ['a model', { model: undefined }, 'model: is required: the name of a model'],
    ['the name of a model', { model: '' }, 'model: must not be empty'],
    ['the kind of a tool', { tools: [{}] }, 'tools[0].type: is required: the kind of tool'],
    ['the name of a tool', { tools: [{ type: 'custom' }] }, 'tools[0].name: is required: the name of the tool'],
    ['a character in a name', { tools: [{ type: 'function', name: '' }] }, 'tools[0].name: must not be empty'],
    ['the name of a namespace', { tools: [{ type: 'namespace' }] }, 'tools[0].name: is required: the name of the name'],
    [
      'the tools of a namespace',
      { tools: [{ type: 'namespace', name: 'n' }] },
      'tools[0].tools: is required: the tools of the namespace',
    ],
    [
      'tools in an item',
      { input: [{ type: 'additional_tools', tools: 5 }] },
      'input[0].tools: must be an array of tools',
    ],
    ['the kind of a choice', { tool_choice: {} }, 'tool_choice.type: is required: function, custom, allowed_tools or'],
    ['the chosen tool', { tool_choice: { type: 'custom' } }, 'tool_choice.name: is required: the name of the tool'],
    [
      'allowed tools',
      { tool_choice: { type: 'allowed_tools' } },
      'tool_choice.tools: is required: the tools that may be called',
    ],
    [
      'the kind of an allowed tool',
      { tool_choice: { type: 'allowed_tools', tools: [{}] } },
      'tool_choice.tools[0].type: is required: the kind of tool',
    ],
    ['the kind of a format', { text: { format: {} } }, 'text.format.type: is required: text, json_object or json_sch'],
    [
      'the name of a schema',
      { text: { format: { type: 'json_schema' } } },
      'text.format.name: is required: a name for the schema',
    ],
    [
      'a schema',
      { text: { format: { type: 'json_schema', name: 'n' } } },
      'text.format.schema: is required: a JSON Schema',
    ],
    ['readable instructions', { instructions: 5 }, 'instructions: must be a string or an array of items'],
    ['a readable input', { input: 5 }, 'input: must be a string or an array of items'],
    ['what a background needs', { background: true, store: false }, 'background: must be false if store is false'],
  ])('%s', (_, body, message) => {
    expect(() => read({ input: 'hi', ...body })).toThrow(message)
  })

  test('nothing, but whose tools are not known', () => {
    expect(read({ input: 'hi', tools: [search] }).tools).toMatchObject([{ type: 'function', name: 'tool_search' }])
  })
})
