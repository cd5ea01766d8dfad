import { isUtf8 } from 'node:buffer'
import { GatewayError, invalid } from '../../error.ts'
import { isObject, tryParse } from '../../json/parse.ts'
import { checkJson } from '../../json/scan.ts'
import type { MultipartEvent, PartHead } from '../../http/multipart.ts'
import { sniff, SNIFFED_BYTES } from '../../http/sniff.ts'
import type { FileDetails, Upload } from '../../files/upload.ts'

/** The purposes of OpenAI's API. */
export const PURPOSES: readonly string[] = ['assistants', 'batch', 'fine-tune', 'vision', 'user_data', 'evals']
/** The purpose if the client sends none, as clients of other APIs do. */
const DEFAULT_PURPOSE = 'user_data'

const MAX_FIELD_BYTES = 16 * 1024
const MAX_NAME_CHARACTERS = 255

/** The name of the file's part: OpenAI's and Anthropic's clients send `file`, Replicate's `content`. */
const FILE_FIELDS: readonly string[] = ['file', 'content']

const HOUR = 3600
const DAY = 24 * HOUR

/** The longest lifetime in seconds, by the field that sets it: OpenAI's and Anthropic's. */
const MAX_LIFETIME: Readonly<Record<string, number>> = {
  'expires_after[seconds]': 30 * DAY,
  expires_in_seconds: 90 * DAY,
}

/** Field name -> check of its value. A bad value is refused before the file that follows it has arrived. */
const FIELD_CHECKS: Readonly<Record<string, (name: string, text: string) => void>> = {
  purpose: (name, text) => {
    if (!PURPOSES.includes(text)) throw invalid(name, `must be one of ${PURPOSES.join(', ')}`)
  },
  'expires_after[anchor]': (name, text) => {
    if (text !== 'created_at') throw invalid(name, "must be 'created_at'")
  },
  'expires_after[seconds]': checkSeconds,
  expires_in_seconds: checkSeconds,
  metadata: (name, text) => {
    if (checkJson(text) !== undefined || !isObject(tryParse(text))) throw invalid(name, 'must be a JSON object')
  },
  filename: () => {},
  type: () => {},
}

function checkSeconds(name: string, text: string): void {
  const max = MAX_LIFETIME[name]!
  if (!/^\d{1,9}$/.test(text) || Number(text) < HOUR || Number(text) > max)
    throw invalid(name, `must be a whole number from ${HOUR} to ${max}`)
}

/** The multipart form of an upload. Parts may arrive in any order: the file is streamed to disk, fields are kept. */
export class UploadForm {
  readonly #upload: Upload
  readonly #maxBytes: number
  readonly #fields = new Map<string, string>()
  #part: PartHead | undefined
  #file: PartHead | undefined
  /** Chunks of the current field. They are copied, because a chunk is overwritten when the next one is read. */
  #text: Uint8Array[] = []
  /** The first bytes of the file, copied likewise. */
  readonly #head: Uint8Array[] = []

  /** `maxBytes`: the limit for the file. */
  constructor(upload: Upload, maxBytes: number) {
    this.#upload = upload
    this.#maxBytes = maxBytes
  }

  /** Throws GatewayError invalid_request or request_too_large, and the errors of the upload. */
  async add(event: MultipartEvent): Promise<void> {
    if ('part' in event) this.#begin(event.part)
    else if ('end' in event) this.#end()
    else if (this.#part === this.#file) await this.#write(event.bytes)
    else this.#read(event.bytes)
  }

  #begin(part: PartHead): void {
    this.#part = part
    const { name } = part
    if (FILE_FIELDS.includes(name)) {
      if (this.#file !== undefined) throw invalid(name, 'must be the only file of the upload')
      if (part.filename === undefined) throw invalid(name, 'must be a file with a filename (with curl: -F file=@path)')
      this.#file = { ...part, filename: toBaseName(part.filename) }
      this.#part = this.#file
    } else {
      if (!Object.hasOwn(FIELD_CHECKS, name))
        throw invalid(
          name.slice(0, 100),
          `is not a field of an upload; use file, ${Object.keys(FIELD_CHECKS).join(', ')}`,
        )
      if (this.#fields.has(name)) throw invalid(name, 'must be sent only once')
    }
  }

  async #write(bytes: Uint8Array): Promise<void> {
    const { bytes: before } = this.#upload
    if (before + bytes.length > this.#maxBytes)
      throw new GatewayError('request_too_large', `${this.#file!.name}: must be at most ${this.#maxBytes} bytes`, {
        param: this.#file!.name,
      })
    if (before < SNIFFED_BYTES) this.#head.push(new Uint8Array(bytes.subarray(0, SNIFFED_BYTES - before)))
    await this.#upload.write(bytes)
  }

  #read(bytes: Uint8Array): void {
    this.#text.push(new Uint8Array(bytes))
    if (this.#text.reduce((sum, { length }) => sum + length, 0) > MAX_FIELD_BYTES)
      throw invalid(this.#part!.name, `must be at most ${MAX_FIELD_BYTES} bytes`)
  }

  #end(): void {
    if (this.#part === this.#file) return
    const { name } = this.#part!
    const bytes = Buffer.concat(this.#text.splice(0))
    if (!isUtf8(bytes)) throw invalid(name, 'must be UTF-8')
    const text = bytes.toString()
    FIELD_CHECKS[name]!(name, text)
    this.#fields.set(name, text)
  }

  /** The details from the complete form. Throws GatewayError invalid_request if something is missing. */
  details(): FileDetails {
    const field = (name: string): string | undefined => this.#fields.get(name)
    if (this.#file === undefined) throw invalid('file', 'is required')
    if (this.#upload.bytes === 0) throw invalid(this.#file.name, 'must not be empty')
    const [anchor, seconds] = [field('expires_after[anchor]'), field('expires_after[seconds]')]
    if ((anchor === undefined) !== (seconds === undefined))
      throw invalid('expires_after', 'requires both anchor and seconds')
    const lifetime = seconds ?? field('expires_in_seconds')
    const filename = toBaseName(field('filename') ?? this.#file.filename!)
    return {
      filename,
      purpose: field('purpose') ?? DEFAULT_PURPOSE,
      mediaType: sniff(Buffer.concat(this.#head), field('type') ?? this.#file.mediaType, filename),
      // Metadata marks an upload by Replicate's client, which needs responses of its own.
      metadata: field('metadata') ?? (this.#file.name === 'content' ? '{}' : null),
      expiresAfterMs: lifetime === undefined ? undefined : Number(lifetime) * 1000,
    }
  }
}

/** A filename without folders. It is only displayed, never opened. */
function toBaseName(filename: string): string {
  const name = filename.slice(Math.max(filename.lastIndexOf('/'), filename.lastIndexOf('\\')) + 1)
  if (filename.length > MAX_NAME_CHARACTERS || /[\x00-\x1f\x7f]/.test(filename))
    throw invalid('filename', `must be at most ${MAX_NAME_CHARACTERS} characters, without control characters`)
  return ['', '.', '..'].includes(name) ? 'unnamed' : name
}
