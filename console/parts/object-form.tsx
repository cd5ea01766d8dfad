import { Button, JsonInput, Modal, PasswordInput, Select, Textarea, TextInput } from '@mantine/core'
import { type FormEvent, type ReactNode, useState } from 'react'
import type { SetObject } from '../api/answers.ts'
import { ApiError, type AskOptions } from '../api/ask.ts'
import { useChange } from '../api/queries.ts'
import { Fault } from './fault.tsx'

export type Members = Record<string, unknown>

/** One member of an object. `path`: as in sluice.yaml. Without a kind, it is a line of text. */
export type Field = {
  path: string
  label: string
  description?: string
  /** The value in force while the field is empty. */
  placeholder?: string | undefined
  required?: boolean
  kind?: 'number' | 'secret' | 'lines'
  choices?: readonly string[]
}

/** An object that is set up at run time. `name`: undefined for a new one; `etag`: of what was read. */
type FormObject = { name: string | undefined; value: Members; etag: string | null; isSet: boolean }

const NAME = 'name of the object'
const MORE = 'more'

const isMembers = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const at = (value: unknown, path: string): unknown =>
  path.split('.').reduce((of: unknown, name) => (isMembers(of) ? of[name] : undefined), value)

/** A copy with another value at the path; undefined removes it, and what is empty then. */
function withValue(value: Members, [name = '', ...rest]: string[], set: unknown): Members {
  const own = value[name]
  const next = rest.length === 0 ? set : withValue(isMembers(own) ? own : {}, rest, set)
  const { [name]: _, ...others } = value
  const isEmpty = next === undefined || (rest.length > 0 && isMembers(next) && Object.keys(next).length === 0)
  return isEmpty ? others : { ...others, [name]: next }
}

const shown = (value: unknown): string => (value === undefined || value === null ? '' : String(value))

type Texts = Readonly<Record<string, string>>

function textsOf(fields: readonly Field[], { name, value }: FormObject): Texts {
  const rest = fields.reduce((left, { path }) => withValue(left, path.split('.'), undefined), value)
  return {
    ...Object.fromEntries(fields.map(({ path }) => [path, shown(at(value, path))])),
    [NAME]: name ?? '',
    [MORE]: Object.keys(rest).length === 0 ? '' : JSON.stringify(rest, null, 2),
  }
}

/** The body of the change. Throws a SyntaxError where the further members are no JSON. */
function bodyOf(fields: readonly Field[], texts: Texts): Members {
  const more = (texts[MORE] ?? '').trim()
  const rest: unknown = more === '' ? {} : JSON.parse(more)
  if (!isMembers(rest)) throw new SyntaxError('must be a JSON object')
  return fields.reduce((body, { path, kind }) => {
    const text = (texts[path] ?? '').trim()
    if (text === '') return body
    return withValue(body, path.split('.'), kind === 'number' && Number.isFinite(Number(text)) ? Number(text) : text)
  }, rest)
}

type Props = {
  /** For the title: `provider`. */
  what: string
  /** The path of its kind: `/providers`. */
  base: string
  object: FormObject
  nameLabel: string
  fields: readonly Field[]
  /** Members that are in the body in another form. */
  toBody?: (body: Members) => Members
  note?: ReactNode
  onClose: () => void
}

/** A dialog that sets up, changes or removes an object. Problems are shown at the fields that they are about. */
export function ObjectForm({ what, base, object, nameLabel, fields, toBody = (body) => body, note, onClose }: Props) {
  const [texts, setTexts] = useState(() => textsOf(fields, object))
  const [wrong, setWrong] = useState<{ path: string; message: string }>()
  const path = `${base}/${encodeURIComponent((texts[NAME] ?? '').trim())}`
  const all = [...(object.name === undefined ? [{ path: NAME, label: nameLabel, required: true }] : []), ...fields]
  const tag: AskOptions = object.etag === null ? {} : { ifMatch: object.etag }
  const touched = [base, '/models', '/providers', '/health', '/changes']
  const save = useChange<Members>(
    'PUT',
    () => path,
    touched,
    (body) => ({ body, ...tag }),
  )
  const remove = useChange<void>(
    'DELETE',
    () => path,
    touched,
    () => tag,
  )
  const submit = (event: FormEvent): void => {
    event.preventDefault()
    const missing = all.find(({ path: of, required }) => required === true && (texts[of] ?? '').trim() === '')
    if (missing !== undefined) return setWrong({ path: missing.path, message: 'This field is required.' })
    try {
      const body = toBody(bodyOf(fields, texts))
      setWrong(undefined)
      save.mutate(body, { onSuccess: onClose })
    } catch (error) {
      setWrong({ path: MORE, message: (error as Error).message })
    }
  }
  const set = (name: string) => (text: string) => setTexts((before) => ({ ...before, [name]: text }))
  const owner = fieldOf(all, save.error)
  const errorAt = (at: string): string | undefined =>
    wrong?.path === at ? wrong.message : owner === at ? save.error?.message : undefined
  return (
    <Modal opened onClose={onClose} title={object.name === undefined ? `Add a ${what}` : `The ${what} ${object.name}`}>
      <form onSubmit={submit} className="stack" aria-label={`Set up the ${what}`} noValidate>
        {note}
        {all.map((field) => (
          <FieldInput
            key={field.path}
            field={field}
            text={texts[field.path] ?? ''}
            error={errorAt(field.path)}
            onChange={set(field.path)}
          />
        ))}
        <JsonInput
          label="More, as JSON"
          description="Anything else that it can have in sluice.yaml."
          autosize
          minRows={2}
          maxRows={12}
          value={texts[MORE] ?? ''}
          error={errorAt(MORE)}
          onChange={set(MORE)}
        />
        <Foot
          errors={[owner === undefined ? save.error : null, remove.error]}
          isSaving={save.isPending}
          isRemoving={remove.isPending}
          onRemove={object.isSet ? () => remove.mutate(undefined, { onSuccess: onClose }) : undefined}
        />
      </form>
    </Modal>
  )
}

function Foot(props: {
  errors: readonly (Error | null)[]
  isSaving: boolean
  isRemoving: boolean
  onRemove: (() => void) | undefined
}) {
  const { errors, isSaving, isRemoving, onRemove } = props
  return (
    <>
      {errors.map((error) => error !== null && <Fault key={error.message} error={error} />)}
      <div className="form-foot">
        <Button type="submit" loading={isSaving}>
          Save
        </Button>
        {onRemove !== undefined && (
          <Button variant="default" className="danger" loading={isRemoving} onClick={onRemove}>
            Remove
          </Button>
        )}
      </div>
    </>
  )
}

/** The path of the field that an error is about. */
function fieldOf(fields: readonly Field[], error: Error | null): string | undefined {
  const param = error instanceof ApiError ? error.param : null
  if (param === null) return undefined
  return fields.find(({ path }) => param === path || param.startsWith(`${path}.`) || param.startsWith(`${path}[`))?.path
}

function FieldInput(props: {
  field: Field
  text: string
  error: string | undefined
  onChange: (text: string) => void
}) {
  const { field, text, error, onChange } = props
  const { label, description, placeholder, required = false, kind, choices } = field
  const shared = { label, description, placeholder, required, error, value: text, autoComplete: 'off' }
  if (choices !== undefined)
    return <Select {...shared} data={[...choices]} value={text || null} onChange={(value) => onChange(value ?? '')} />
  const typed = {
    ...shared,
    onChange: (event: { currentTarget: { value: string } }) => onChange(event.currentTarget.value),
  }
  if (kind === 'secret') return <PasswordInput {...typed} />
  if (kind === 'lines') return <Textarea {...typed} autosize minRows={2} />
  return <TextInput {...typed} inputMode={kind === 'number' ? 'decimal' : 'text'} />
}

/** Where something is set up: the file with its line, a variable, or the console. */
export function Origin({ set_in, set }: { set_in: string | null; set: SetObject | null }) {
  if (set?.problem != null) return <span className="failed">not in force: {set.problem}</span>
  if (set_in === null) return <span className="dim">{set === null ? 'built in' : 'console'}</span>
  return (
    <span className="dim">
      <code className="small">{set_in}</code>
      {set !== null && ', which hides what was set here'}
    </span>
  )
}

export const ChangeButton = ({ name, onClick }: { name: string; onClick: () => void }) => (
  <Button size="compact-sm" variant="default" aria-label={`Change ${name}`} onClick={onClick}>
    Change
  </Button>
)
