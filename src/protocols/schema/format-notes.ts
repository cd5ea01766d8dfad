import type { OutputFormat } from '../../generation/request.ts'
import type { Translation } from '../translation.ts'
import { blank, type Schema } from './schema.ts'

/**
 * The schema of a response with the name and the description of its format as annotations, for a protocol that has no
 * fields for them.
 */
export function withFormatNotes(
  schema: Schema,
  { name, description }: OutputFormat & { type: 'schema' },
  translation: Translation,
): Schema {
  const { title = name, description: own = description } = schema
  if (name !== undefined && title !== name)
    translation.lose('unsupported_field', translation.setting('outputFormat.name'), 'the schema has a title of its own')
  const notes = description === undefined || own === description ? own : `${description}\n\n${String(own)}`
  return blank(schema, title === undefined ? {} : { title }, notes === undefined ? {} : { description: notes })
}
