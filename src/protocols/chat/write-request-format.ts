import type { GenerationRequest, OutputFormat, TextPart } from '../../generation/request.ts'
import { present } from '../fields.ts'
import { jsonInstruction, mentionsJson } from '../json-instruction.ts'
import type { Capabilities } from '../protocol.ts'
import { withFormatNotes } from '../schema/format-notes.ts'
import { responseSchema } from '../schema/openai.ts'
import { refusingAt } from '../schema/schema.ts'
import { objectResponse } from '../schema/wrapping.ts'
import { acceptedName, OPENAI_NAMES } from '../tool-names.ts'
import type { Translation } from '../translation.ts'
import type { Json } from './shapes.ts'

/** The field for the output format, and instructions that describe it where the field is not enough. */
type WrittenFormat = { field: Json; instructions: TextPart[] }

type SchemaFormat = OutputFormat & { type: 'schema' }

const ALL_FORMATS: NonNullable<Capabilities['formats']> = ['json_object', 'json_schema']

/** `response_format`. A format that the provider does not enforce is described in the prompt. */
export function writeFormat(request: GenerationRequest, translation: Translation): WrittenFormat {
  const { quirks, capabilities } = translation.target
  const { outputFormat: format } = request
  if (format === undefined) return { field: {}, instructions: [] }
  if (format.type === 'enum') throw translation.plainEnumRefusal()
  const refused = quirks.formatAlone === true && (request.stream || request.tools.length > 0)
  if (format.type === 'text') return { field: refused ? {} : { response_format: { type: 'text' } }, instructions: [] }
  const accepted = refused ? [] : (capabilities.formats ?? ALL_FORMATS)
  return format.type === 'schema'
    ? writeSchema(format, accepted, refused, translation)
    : writeJson(request, accepted, translation)
}

function writeSchema(
  format: SchemaFormat,
  accepted: NonNullable<Capabilities['formats']>,
  refused: boolean,
  translation: Translation,
): WrittenFormat {
  if (accepted.includes('json_schema'))
    return {
      field: schemaField({
        name: acceptedName(format.name ?? 'answer', OPENAI_NAMES),
        ...present('description', format.description),
        ...responseSchema(format, translation),
      }),
      instructions: [],
    }
  translation.lose(
    'format_described',
    translation.setting('outputFormat'),
    `the provider does not enforce a schema${refused ? ' beside tools or in a stream' : ''}; the prompt describes it`,
  )
  return {
    field: accepted.includes('json_object') ? jsonField : {},
    instructions: [jsonInstruction(describedSchema(format, translation))],
  }
}

/**
 * The schema for the prompt. Like an enforced one it is wrapped in an object, since the instruction and `json_object`
 * ask for an object; the response is unwrapped.
 */
function describedSchema(format: SchemaFormat, translation: Translation): unknown {
  const { schema, wrapped } = refusingAt(translation.setting('outputFormat.schema'), () =>
    objectResponse(format, translation.schemaBudget),
  )
  if (wrapped) translation.undo({ type: 'unwrap' })
  return withFormatNotes(schema, format, translation)
}

function writeJson(
  request: GenerationRequest,
  accepted: NonNullable<Capabilities['formats']>,
  translation: Translation,
): WrittenFormat {
  if (accepted.includes('json_schema') && !accepted.includes('json_object'))
    return { field: schemaField({ name: 'answer', schema: { type: 'object' } }), instructions: [] }
  const instructions = mentionsJson(request) ? [] : [jsonInstruction()]
  if (accepted.length === 0)
    translation.lose(
      'format_described',
      translation.setting('outputFormat'),
      'the provider does not enforce JSON beside tools or in a stream; the prompt asks for it',
    )
  else if (instructions.length > 0)
    translation.lose(
      'format_described',
      translation.setting('outputFormat'),
      'the prompt asks for JSON too: providers refuse JSON mode where no message mentions it',
    )
  return { field: accepted.includes('json_object') ? jsonField : {}, instructions }
}

const jsonField: Json = { response_format: { type: 'json_object' } }

const schemaField = (schema: Json): Json => ({ response_format: { type: 'json_schema', json_schema: schema } })
