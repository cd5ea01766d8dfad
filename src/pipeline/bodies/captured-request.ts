import { asGatewayError } from '../../error.ts'
import type { ProtocolName } from '../../generation/request.ts'
import type { IncomingResponse } from '../../http/call.ts'
import { bodyText, type RequestBody } from '../../http/encode-request.ts'
import type { TextSource } from '../../http/stream.ts'
import type { Outcome } from '../../ledger/outcomes.ts'
import { protocols } from '../../protocols/index.ts'
import type { CallRecorder, RecordedCall } from '../../providers/attempt.ts'
import type { BodyWriter } from './body-writer.ts'
import { shownHeaders, shownUrl } from './headers.ts'
import { PartRecorder } from './part-recorder.ts'
import { RecordedSource, recordedAnswer } from './sources.ts'
import type { RawPart } from './writing-worker.ts'

/** Whose request it is, whether only a failed or lossy one is kept, and until when. */
type CaptureTerms = { id: string; accountId: string; keyId: string; errorsOnly: boolean; expiresAt: number }

type Call = { request: PartRecorder; answer?: PartRecorder; incoming?: IncomingResponse }

/** Calls of which bodies are kept until it is known which one served: a hedged request has two at a time. */
const CALLS_KEPT = 2

/** The bodies of one request, from its first byte to the last one of its answer. */
export class CapturedRequest implements CallRecorder {
  readonly terms: CaptureTerms
  readonly #writer: BodyWriter
  readonly #onEnd: (request: CapturedRequest) => void
  readonly #startedAt = performance.now()
  readonly #headers: [string, string][]
  #request: PartRecorder | undefined
  #calls: Call[] = []
  #served: Call | undefined
  #answer: PartRecorder | undefined
  #outcome: Outcome | undefined
  #losses = 0
  #isStreamed = false
  #isAnswered = false
  #isOver = false

  constructor(terms: CaptureTerms, headers: Headers, writer: BodyWriter, onEnd: (request: CapturedRequest) => void) {
    this.terms = terms
    this.#headers = shownHeaders(headers)
    this.#writer = writer
    this.#onEnd = onEnd
  }

  /** The client's body, as it was received. */
  clientRequest(bytes: Uint8Array): void {
    this.#request = this.#recorder('client_request', { headers: this.#headers })
    this.#request.addWhole(bytes, this.#now)
  }

  call(url: string, headers: Readonly<Record<string, string>>, body: RequestBody): RecordedCall {
    const shown = { url: shownUrl(url), headers: shownHeaders(Object.entries(headers)) }
    const call: Call = { request: this.#recorder('provider_request', shown) }
    call.request.addWhole(Buffer.from(bodyText(body)), this.#now)
    this.#calls.push(call)
    while (this.#calls.length > CALLS_KEPT) freeCall(this.#calls.shift()!)
    return { received: (incoming) => this.#received(call, incoming) }
  }

  #received(call: Call, incoming: IncomingResponse): IncomingResponse {
    const { status, headers, body } = incoming
    const answer = this.#recorder('provider_answer', { status, headers: shownHeaders(headers) })
    call.answer = answer
    call.incoming = { status, headers, body: new RecordedSource(body, (chunk) => answer.add(chunk, this.#now)) }
    return call.incoming
  }

  /** The call that serves the request. */
  servedBy(incoming: IncomingResponse): void {
    this.#served = this.#calls.find((call) => call.incoming === incoming)
  }

  /** The generation is over. */
  ended(outcome: Outcome, losses: number): void {
    this.#outcome = outcome
    this.#losses = losses
    this.#endSoon()
  }

  /** Records a streamed answer on its way to the client. */
  streamed(source: TextSource): TextSource {
    const answer = (this.#answer = this.#recorder('client_answer', {}))
    this.#isStreamed = true
    const ended = (): void => {
      this.#isAnswered = true
      this.#endSoon()
    }
    return recordedAnswer(source, (text) => answer.add(text, this.#now), ended)
  }

  /** Records the answer to a request, or the error in the format of the protocol. */
  async record(answering: Promise<Response>, protocol: ProtocolName, requestId: string): Promise<Response> {
    try {
      const response = await answering
      const { status } = response
      const headers = shownHeaders(response.headers)
      if (this.#isStreamed) {
        this.#answer?.setHead({ status, headers })
        return response
      }
      const body = await response.bytes()
      this.#whole(status, headers, body)
      return new Response(body, { status, headers: response.headers })
    } catch (thrown) {
      const error = asGatewayError(thrown)
      const { serve } = protocols[protocol]
      const text = JSON.stringify(serve.writeError(error, requestId))
      this.#answer?.free()
      this.#whole(serve.statusOf?.(error) ?? error.status, [['content-type', 'application/json']], Buffer.from(text))
      throw thrown
    }
  }

  #whole(status: number, headers: [string, string][], body: Uint8Array): void {
    this.#answer = this.#recorder('client_answer', { status, headers })
    this.#answer.addWhole(body, this.#now)
    this.#isStreamed = false
    this.#isAnswered = true
    if (status >= 400) this.#outcome ??= 'failed'
    this.#end()
  }

  /** The bodies as they are to be written. */
  parts(): Promise<RawPart[]> {
    return Promise.all(this.#recorders.map((recorder) => recorder.part()))
  }

  get isIncomplete(): boolean {
    return this.#recorders.some((recorder) => recorder.isIncomplete)
  }

  /** True where its terms ask for it. */
  get isWanted(): boolean {
    const { errorsOnly } = this.terms
    const hasFailed = this.#outcome !== undefined && this.#outcome !== 'completed' && this.#outcome !== 'client-left'
    return !errorsOnly || hasFailed || this.#losses > 0
  }

  free(): void {
    for (const recorder of [this.#request, this.#answer]) recorder?.free()
    for (const call of this.#calls) freeCall(call)
    this.#calls = []
  }

  get #recorders(): PartRecorder[] {
    const { request, answer } = this.#served ?? this.#calls.at(-1) ?? {}
    return [this.#request, request, answer, this.#answer].filter((recorder) => recorder !== undefined)
  }

  get #now(): number {
    return Math.round(performance.now() - this.#startedAt)
  }

  /** A stream is over when its last byte has left and its generation is closed, in any order. */
  #endSoon(): void {
    if (this.#isStreamed && this.#isAnswered && this.#outcome !== undefined) this.#end()
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#onEnd(this)
  }

  #recorder(...[name, head]: [ConstructorParameters<typeof PartRecorder>[0], Partial<RawPart>]): PartRecorder {
    return new PartRecorder(name, head, this.#writer)
  }
}

function freeCall({ request, answer }: Call): void {
  request.free()
  answer?.free()
}
