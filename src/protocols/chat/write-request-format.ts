import type { GenerationRequest, TextPart } from '../../generation/request.ts'
import type { Translation } from '../translation.ts'
import { present } from '../fields.ts'
import { jsonInWords, speaksOfJson } from '../json-instruction.ts'
import type { Capabilities, Target } from '../protocol.ts'
import { responseSchema } from '../schema/openai.ts'
import { acceptedName, OPENAI_NAMES } from '../tool-names.ts'
import type { Json } from './shapes.ts'

/** The field that says how the answer is to be written, and what the model is told of it besides. */
type Format = { field: Json; told: TextPart[] }

const BOTH: NonNullable<Capabilities['formats']> = ['json_object', 'json_schema']

/** What the provider cannot be asked for in its field is asked of the model in words. */
export function writeFormat(
  request: GenerationRequest,
  { quirks, capabilities: { formats = BOTH } }: Target,
  translation: Translation,
): Format {
  const { outputFormat: format } = request
  if (format === undefined) return { field: {}, told: [] }
  if (format.type === 'enum') throw translation.bareEnum()
  const alone = quirks.formatAlone === true && (request.stream || request.tools.length > 0)
  if (format.type === 'text') return { field: alone ? {} : { response_format: { type: 'text' } }, told: [] }
  const taken = alone ? [] : formats
  const object = taken.includes('json_object') ? { response_format: { type: 'json_object' } } : {}
  if (format.type === 'schema') {
    if (taken.includes('json_schema'))
      return {
        field: schemaField({
          name: acceptedName(format.name ?? 'answer', OPENAI_NAMES),
          ...present('description', format.description),
          ...responseSchema(format, translation),
        }),
        told: [],
      }
    translation.lose(
      'todo_approximated',
      translation.setting('outputFormat'),
      `the provider binds no answer to a schema${alone ? ' beside tools or in a stream' : ''}: the model is asked for it in words`,
    )
    return { field: object, told: [jsonInWords(responseSchema(format, translation).schema)] }
  }
  if (taken.includes('json_schema') && !taken.includes('json_object'))
    return { field: schemaField({ name: 'answer', schema: { type: 'object' } }), told: [] }
  const told = speaksOfJson(request) ? [] : [jsonInWords()]
  if (taken.length === 0)
    translation.lose(
      'todo_approximated',
      translation.setting('outputFormat'),
      'the provider holds no answer to JSON beside tools or in a stream: the model is asked for it in words',
    )
  else if (told.length > 0)
    translation.lose(
      'todo_approximated',
      translation.setting('outputFormat'),
      'the model is told in words, too: providers refuse such a request in which JSON is not spoken of',
    )
  return { field: object, told }
}

const schemaField = (schema: Json): Json => ({ response_format: { type: 'json_schema', json_schema: schema } })
