import { isUtf8 } from 'node:buffer'
import { GatewayError, invalid } from '../../error.ts'
import { checkJson, parsed } from '../../json/text.ts'
import type { MultipartEvent, PartHead } from '../../http/multipart.ts'
import { sniff, SNIFFED_BYTES } from '../../http/sniff.ts'
import { isObject } from '../../protocols/fields.ts'
import type { FileFacts, Upload } from '../../files/files.ts'

/** What OpenAI's clients may say a file is for. */
export const PURPOSES: readonly string[] = ['assistants', 'batch', 'fine-tune', 'vision', 'user_data', 'evals']
/** What it is for where its client does not say, as those of other makers: anything. */
const ANY_PURPOSE = 'user_data'

const MOST_FIELD_BYTES = 16 * 1024
const MOST_NAME_CHARACTERS = 255

/** The file, as OpenAI's and Anthropic's clients call it, and as Replicate's does. */
const FILE_FIELDS: readonly string[] = ['file', 'content']

const HOUR = 3600
const DAY = 24 * HOUR

/** Seconds of a file's life that a field may say: OpenAI's, and Anthropic's. */
const LIVES: Readonly<Record<string, { most: number }>> = {
  'expires_after[seconds]': { most: 30 * DAY },
  expires_in_seconds: { most: 90 * DAY },
}

/** What the text of a field must be, so that it is refused before the file behind it has come. */
const FIELDS: Readonly<Record<string, (name: string, text: string) => void>> = {
  purpose: (name, text) => {
    if (!PURPOSES.includes(text)) throw invalid(name, `must be one of ${PURPOSES.join(', ')}`)
  },
  'expires_after[anchor]': (name, text) => {
    if (text !== 'created_at') throw invalid(name, "must be 'created_at'")
  },
  'expires_after[seconds]': checkSeconds,
  expires_in_seconds: checkSeconds,
  metadata: (name, text) => {
    if (checkJson(text) !== undefined || !isObject(parsed(text))) throw invalid(name, 'must be a JSON object')
  },
  filename: () => {},
  type: () => {},
}

function checkSeconds(name: string, text: string): void {
  const { most } = LIVES[name]!
  if (!/^\d{1,9}$/.test(text) || Number(text) < HOUR || Number(text) > most)
    throw invalid(name, `must be a whole number from ${HOUR} to ${most}`)
}

/** The form of an upload, as its parts come in any order: the file goes on to the disk, the fields are kept. */
export class UploadForm {
  readonly #upload: Upload
  readonly #mostBytes: number
  readonly #fields = new Map<string, string>()
  #part: PartHead | undefined
  #file: PartHead | undefined
  /** Of the field that is being read. */
  #text: Uint8Array[] = []
  /** How the file begins. Copies, as of the field: a piece of the body is gone when the next one is read. */
  readonly #head: Uint8Array[] = []

  /** `mostBytes`: of the file. */
  constructor(upload: Upload, mostBytes: number) {
    this.#upload = upload
    this.#mostBytes = mostBytes
  }

  /** GatewayError invalid_request, request_too_large, or what the upload fails with. */
  async take(event: MultipartEvent): Promise<void> {
    if ('part' in event) this.#begin(event.part)
    else if ('end' in event) this.#end()
    else if (this.#part === this.#file) await this.#write(event.bytes)
    else this.#read(event.bytes)
  }

  #begin(part: PartHead): void {
    this.#part = part
    const { name } = part
    if (FILE_FIELDS.includes(name)) {
      if (this.#file !== undefined) throw invalid(name, 'must be one file, not several')
      if (part.filename === undefined)
        throw invalid(name, 'must be a file with a filename, not a text; with curl, -F file=@path')
      this.#file = { ...part, filename: nameOf(part.filename) }
      this.#part = this.#file
    } else {
      if (!Object.hasOwn(FIELDS, name))
        throw invalid(name.slice(0, 100), `is no field of an upload; there are file, ${Object.keys(FIELDS).join(', ')}`)
      if (this.#fields.has(name)) throw invalid(name, 'must be there once')
    }
  }

  async #write(bytes: Uint8Array): Promise<void> {
    const { bytes: before } = this.#upload
    if (before + bytes.length > this.#mostBytes)
      throw new GatewayError('request_too_large', `${this.#file!.name}: must be at most ${this.#mostBytes} bytes`, {
        param: this.#file!.name,
      })
    if (before < SNIFFED_BYTES) this.#head.push(new Uint8Array(bytes.subarray(0, SNIFFED_BYTES - before)))
    await this.#upload.write(bytes)
  }

  #read(bytes: Uint8Array): void {
    this.#text.push(new Uint8Array(bytes))
    if (this.#text.reduce((sum, { length }) => sum + length, 0) > MOST_FIELD_BYTES)
      throw invalid(this.#part!.name, `must be at most ${MOST_FIELD_BYTES} bytes`)
  }

  #end(): void {
    if (this.#part === this.#file) return
    const { name } = this.#part!
    const bytes = Buffer.concat(this.#text.splice(0))
    if (!isUtf8(bytes)) throw invalid(name, 'must be UTF-8')
    const text = bytes.toString()
    FIELDS[name]!(name, text)
    this.#fields.set(name, text)
  }

  /** What the whole form says. GatewayError invalid_request where something is missing. */
  facts(): FileFacts {
    const field = (name: string): string | undefined => this.#fields.get(name)
    if (this.#file === undefined) throw invalid('file', 'is missing: the form must have one file')
    if (this.#upload.bytes === 0) throw invalid(this.#file.name, 'must not be empty')
    const [anchor, seconds] = [field('expires_after[anchor]'), field('expires_after[seconds]')]
    if ((anchor === undefined) !== (seconds === undefined))
      throw invalid('expires_after', 'must have an anchor and seconds')
    const life = seconds ?? field('expires_in_seconds')
    const filename = nameOf(field('filename') ?? this.#file.filename!)
    return {
      filename,
      purpose: field('purpose') ?? ANY_PURPOSE,
      mediaType: sniff(Buffer.concat(this.#head), field('type') ?? this.#file.mediaType, filename),
      // What Replicate's client is told apart by later.
      metadata: field('metadata') ?? (this.#file.name === 'content' ? '{}' : null),
      expiresAfterMs: life === undefined ? undefined : Number(life) * 1000,
    }
  }
}

/** A client's name for a file, without the folders that it may come with. It is shown and never opened. */
function nameOf(filename: string): string {
  const name = filename.slice(Math.max(filename.lastIndexOf('/'), filename.lastIndexOf('\\')) + 1)
  if (filename.length > MOST_NAME_CHARACTERS || /[\x00-\x1f\x7f]/.test(filename))
    throw invalid('filename', `must be at most ${MOST_NAME_CHARACTERS} characters, without control characters`)
  return ['', '.', '..'].includes(name) ? 'unnamed' : name
}
