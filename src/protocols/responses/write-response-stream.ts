import { isObject, stringOf } from '../../json/parse.ts'
import type { GatewayError } from '../../error.ts'
import type { ContentFilter, GenerationEvent, PartHead } from '../../generation/event.ts'
import type { HostedStep } from '../../generation/request.ts'
import { openaiTier } from '../../generation/service-class.ts'
import { noUsage, type Usage } from '../../generation/usage.ts'
import type { Frame } from '../../http/frames.ts'
import {
  adjustSteps,
  lose,
  loseLifetimes,
  loseNativeContent,
  loseFinishReason,
  loseStopSequence,
  lossReport,
  tierOf,
} from '../losses.ts'
import type { ResponseContext, Writer } from '../protocol.ts'
import { writeSteps } from './hosted-tools.ts'
import { type NamespaceNames, namespaceNames } from './namespaces.ts'
import { responseObject } from './response-object.ts'
import { failureCode, failureMessage, INCOMPLETE, newId, writeUsage, type Json } from './shapes.ts'
import { ResponseOutput } from './write-response-output.ts'
import {
  CallWriter,
  ContentWriter,
  ImageWriter,
  NO_PART,
  type PartWriter,
  ReasoningWriter,
  SearchWriter,
  writeNativeItem,
} from './write-response-parts.ts'

/**
 * Generation events -> the streaming events of the responses protocol, in OpenAI's order and with no other types than
 * OpenAI's, on which SDKs throw.
 */
export class ResponsesResponseWriter implements Writer {
  /** The response as the last lifecycle event has it. */
  readonly response: Json
  readonly #context: ResponseContext
  readonly #names: NamespaceNames
  readonly #output: ResponseOutput
  readonly #usage: Usage = noUsage()
  #hasUsage = false
  /** The service tier that the provider reported. */
  #tier: string | undefined
  #hasRefusal = false
  #part: PartWriter = NO_PART
  /** Calls of tools of the provider whose results have not come. */
  #calls: HostedStep[] = []
  #state: 'new' | 'started' | 'ended' = 'new'

  constructor(context: ResponseContext) {
    this.#context = context
    this.#names = namespaceNames(context.rawRequest.body)
    this.#output = new ResponseOutput(context)
    this.response = responseObject(context)
  }

  write(event: GenerationEvent): Frame[] {
    if (this.#state === 'ended') return []
    if (event.type !== 'usage') this.#start()
    switch (event.type) {
      case 'start':
        break
      case 'part-start':
        this.#part = this.#openPart(event.head)
        break
      case 'part-delta':
        if (event.text !== '' || event.logprobs !== undefined) this.#part.append(event.text, event.logprobs)
        break
      case 'part-end':
        this.#part.close(event.signature)
        this.#part = NO_PART
        break
      case 'usage':
        Object.assign(this.#usage, event.usage)
        this.#hasUsage = true
        this.#tier = event.service?.service_tier ?? this.#tier
        break
      case 'finish':
        this.#finish(event)
        break
      case 'error':
        this.#fail(event.error)
        break
    }
    return this.#output.takeFrames()
  }

  #start(): void {
    if (this.#state !== 'new') return
    this.#state = 'started'
    // The echo of the request can be long (the tools of an agent), so the first two frames share its text.
    const response = JSON.stringify(this.response)
    for (const type of ['response.created', 'response.in_progress']) this.#output.emitResponse(type, response)
  }

  #openPart(head: PartHead): PartWriter {
    if (head.type !== 'native' || head.steps === undefined) this.#endCalls()
    switch (head.type) {
      case 'text':
        return new ContentWriter(this.#output, 'output_text')
      case 'refusal':
        this.#hasRefusal = true
        return new ContentWriter(this.#output, 'refusal')
      case 'citation':
        this.#output.cite(head.citation)
        return NO_PART
      case 'reasoning':
        return new ReasoningWriter(this.#output, head, this.#context)
      case 'tool-call':
        return head.name === this.#names.search
          ? new SearchWriter(this.#output, head, this.#context)
          : new CallWriter(this.#output, head, this.#names)
      case 'image':
        return new ImageWriter(this.#output, head.mediaType)
      // The protocol has neither an output item for audio nor a request for it.
      case 'audio':
        lose(this.#context, 'response_content_dropped', 'audio')
        return NO_PART
      case 'native':
        if (head.protocol === 'responses' && isObject(head.value)) writeNativeItem(this.#output, head.kind, head.value)
        else if (head.steps !== undefined) {
          adjustSteps(this.#context, head.kind)
          for (const step of head.steps) this.#writeStep(step)
        } else loseNativeContent(this.#context, head.kind)
        return NO_PART
    }
  }

  /** A call of a tool of the provider waits for its result, which is a member of its item. Several may be waiting. */
  #writeStep(step: HostedStep): void {
    if (!('output' in step)) return void this.#calls.push(step)
    const index = this.#calls.findIndex(({ id }) => id === step.id)
    const [call] = index === -1 ? [] : this.#calls.splice(index, 1)
    this.#writeSteps(call, step)
  }

  #endCalls(): void {
    for (const call of this.#calls.splice(0)) this.#writeSteps(call, undefined)
  }

  #writeSteps(call: HostedStep | undefined, result: HostedStep | undefined): void {
    const { type, ...item } = writeSteps(call, result)
    writeNativeItem(this.#output, stringOf(type), { ...item, id: newId(type === 'mcp_call' ? 'mcp' : 'ci') })
  }

  #finish(finish: GenerationEvent & { type: 'finish' }): void {
    const { reason } = finish
    this.#endCalls()
    // A refusal with a text is a complete response; without one only the status shows it.
    const incomplete = reason === 'refusal' && this.#hasRefusal ? undefined : INCOMPLETE[reason]
    loseFinishReason(this.#context, finish, this.#hasRefusal ? ['pause', 'other'] : ['pause', 'other', 'refusal'])
    loseStopSequence(this.#context, finish)
    loseLifetimes(this.#context, this.#usage)
    this.#output.endOpenItems(incomplete === undefined ? 'completed' : 'incomplete')
    const { createdAt, aheadMs = 0 } = this.#context.responseIdentity
    if (incomplete === undefined)
      this.response.completed_at = Math.max(createdAt, Math.floor((Date.now() + aheadMs) / 1000))
    else this.response.incomplete_details = { reason: incomplete }
    this.response.content_filters = (finish.filters ?? []).map((filter) => writeFilter(filter, this.#output.textLength))
    this.#end(incomplete === undefined ? 'completed' : 'incomplete')
    this.#context.keep?.(this.response)
  }

  /** Open items are not ended: a client that runs a call as soon as it is done must not run a part of one. */
  #fail(error: GatewayError): void {
    const code = failureCode(error),
      message = failureMessage(error)
    this.#output.emit('error', { code, message, param: error.param ?? null })
    this.response.error = { code, message }
    this.#end('failed')
  }

  #end(status: 'completed' | 'incomplete' | 'failed'): void {
    this.#state = 'ended'
    this.response.status = status
    this.response.output = this.#output.items
    // Clients require a tier.
    this.response.service_tier = tierOf(this.#context, this.#tier, openaiTier) ?? 'default'
    this.response.usage = this.#hasUsage ? writeUsage(this.#usage) : null
    this.#output.emit(`response.${status}`, { response: { ...this.response, ...lossReport(this.#context) } })
  }
}

/** A rating of the prompt or of the text of a response, whose length is in UTF-16 units. */
function writeFilter({ source, blocked, results, raw }: ContentFilter, textLength: number): Json {
  const end = source === 'completion' ? textLength : 0
  return {
    blocked,
    source_type: source,
    content_filter_raw: raw,
    content_filter_results: results,
    content_filter_offsets: { start_offset: 0, end_offset: end, check_offset: end },
  }
}
