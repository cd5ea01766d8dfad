import { Deadline, deadlines } from '../deadlines.ts'
import { GatewayError } from '../error.ts'
import { type ByteSource, type IncomingResponse, type OutgoingRequest, send } from '../http/call.ts'
import { lengthOf } from '../http/encode-request.ts'
import { startProcess } from '../worker/process.ts'
import { callInProcess } from './in-process.ts'

const ENTRY = new URL('../cli/sandbox.ts', import.meta.url)

/** Time after which the process is ended when nothing is under way in it. */
const IDLE_MS = 10_000

/** The sandbox in a process of its own, on a socket of the loopback interface. */
class SandboxProcess {
  #child: ReturnType<typeof startProcess> | undefined
  #url: Promise<string> | undefined
  #calls = 0
  readonly #idleEnd = new Deadline(this)

  async call(request: OutgoingRequest): Promise<IncomingResponse> {
    deadlines.clear(this.#idleEnd)
    this.#calls++
    try {
      this.#url ??= this.#start()
      const { pathname, search } = new URL(request.url)
      const incoming = await send({ ...request, url: (await this.#url) + pathname + search })
      return { ...incoming, body: new CountedSource(incoming.body, () => this.#endCall()) }
    } catch (error) {
      this.#endCall()
      throw error
    }
  }

  async #start(): Promise<string> {
    const child = startProcess(ENTRY)
    this.#child = child
    void child.exited.then(() => {
      if (this.#child === child) this.#child = this.#url = undefined
    })
    // Its first output is its address.
    const { value } = await child.stdout.getReader().read()
    if (value === undefined) throw new GatewayError('overloaded', 'The process of the sandbox did not start.')
    return new TextDecoder().decode(value).trim()
  }

  #endCall(): void {
    this.#calls--
    if (this.#calls === 0) deadlines.set(this.#idleEnd, IDLE_MS)
  }

  onDeadline(): void {
    this.#child?.kill('SIGKILL')
    this.#child = this.#url = undefined
  }
}

/** Reports once that it is over. */
class CountedSource implements ByteSource {
  readonly #source: ByteSource
  #onEnd: (() => void) | undefined

  constructor(source: ByteSource, onEnd: () => void) {
    this.#source = source
    this.#onEnd = onEnd
  }

  async read(): Promise<Uint8Array | undefined> {
    try {
      const chunk = await this.#source.read()
      if (chunk === undefined) this.#end()
      return chunk
    } catch (error) {
      this.#end()
      throw error
    }
  }

  cancel(): void {
    this.#source.cancel()
    this.#end()
  }

  #end(): void {
    this.#onEnd?.()
    this.#onEnd = undefined
  }
}

const sandboxProcess = new SandboxProcess()

/** Bodies from this size on are read, counted and echoed by a process of its own: 1 MB would take 200 ms. */
export const HEAVY_SANDBOX = { bytes: 128 * 1024 }

/** Predictions are not read: they are stored in their ids. */
const isHeavy = ({ url, body }: OutgoingRequest): boolean =>
  body !== undefined && lengthOf(body) >= HEAVY_SANDBOX.bytes && !url.includes('/predictions')

/** Calls the sandbox as `send` calls a provider. */
export const callSandbox: typeof send = (request) =>
  isHeavy(request) ? sandboxProcess.call(request) : callInProcess(request)
