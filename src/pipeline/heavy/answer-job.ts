import { GatewayError } from '../../error.ts'
import type { GenerationEvent, PartHead } from '../../generation/event.ts'
import { ReplayRecorder, type ReplayState } from '../../generation/replay.ts'
import type { ProtocolName, RequestSettings } from '../../generation/request.ts'
import type { Issuer } from '../../generation/signature.ts'
import type { Usage } from '../../generation/usage.ts'
import { protocols } from '../../protocols/index.ts'
import type { ResponseContext, ResponseIdentity } from '../../protocols/protocol.ts'
import type { Quirks } from '../../protocols/quirks.ts'
import { type Loss, LossReport } from '../../protocols/translation.ts'
import type { Undo } from '../../protocols/transforms.ts'
import { type ErrorData, errorData } from '../../worker/errors.ts'
import { tryReadEvents } from '../../providers/attempt.ts'
import { type WrittenResponse, writtenResponse } from '../../store/responses.ts'
import { translate } from '../translate.ts'

/** Reading and writing of a response in one piece, in a process of its own. Its bytes are those of the job. */
export type AnswerJob = {
  /** The protocol of the provider. */
  protocol: ProtocolName
  quirks: Quirks
  transforms: readonly Undo[]
  request: RequestSettings
  /** The members of the request on which the response depends. */
  body: Record<string, unknown>
  responseIdentity: ResponseIdentity
  /** Undefined where client and provider have the same protocol. */
  losses: readonly Loss[] | undefined
  report: boolean
  /** The response is stored. */
  keeps: boolean
  /** Where the response may call tools. */
  replay: { issuer: Issuer; keepsUnsigned: boolean } | undefined
  /** Usage that the provider did not report. */
  counted: Usage | undefined
}

/** `events`: as far as the meter needs them; `unread`: why there are none, of a response that is passed on. */
export type AnswerResult = {
  events: GenerationEvent[]
  unread?: ErrorData | undefined
  replayState: ReplayState | undefined
  losses: readonly Loss[]
  /** The response as it is stored. Its output is behind the bytes of the body: the lengths of its items. */
  kept: { id: string; head: string; output: { id: string | null; length: number }[] } | undefined
  /** Bytes of the body. */
  length: number
}

/** Does one job; see `whole` of respond.ts. */
export async function answerHeavy(
  job: AnswerJob,
  bytes: Buffer,
): Promise<{ output: AnswerResult; bytes: Uint8Array[] }> {
  const { request, responseIdentity, report, transforms, counted, replay } = job
  const text = bytes.toString()
  const protocol = protocols[job.protocol]
  const sameProtocol = job.losses === undefined
  const read = tryReadEvents({ protocol, endpoint: { target: job }, transforms, sameProtocol }, text)
  const events = read instanceof GatewayError ? [] : read
  const recorder = replay && new ReplayRecorder(replay.issuer, replay.keepsUnsigned)
  recorder?.record(events)
  const losses = new LossReport()
  for (const { code, path, reason } of job.losses ?? []) losses.add(code, path, reason)
  let kept: WrittenResponse | undefined
  const context: ResponseContext = {
    rawRequest: { body: job.body, text: '', headers: new Headers() },
    request,
    responseIdentity,
    report,
    ...(sameProtocol ? {} : { losses }),
    ...(job.keeps ? { keep: (response) => void (kept = writtenResponse(response)) } : {}),
  }
  const body = sameProtocol ? protocol.passthrough(context).answer(text, counted) : translate(events, counted, context)
  const bodyBytes = Buffer.from(body)
  const items = (kept?.output ?? []).map(({ text: item }) => Buffer.from(item))
  return {
    output: {
      events: meteredEvents(events),
      unread: read instanceof GatewayError ? errorData(read) : undefined,
      replayState: recorder?.replayState,
      losses: losses.losses,
      kept: kept && { ...kept, output: kept.output.map(({ id }, at) => ({ id, length: items[at]!.length })) },
      length: bodyBytes.length,
    },
    bytes: [bodyBytes, ...items],
  }
}

/** The same events to a meter: adjacent parts of one kind are one, without what they contain besides text. */
export function meteredEvents(events: readonly GenerationEvent[]): GenerationEvent[] {
  const metered: GenerationEvent[] = []
  /** The kind of the open part, and its texts that were not passed on yet. */
  let open: { type: PartHead['type']; texts: string[]; part: number } | undefined
  const flush = (): void => {
    if (open === undefined || open.texts.length === 0) return
    metered.push({ type: 'part-delta', part: open.part, text: open.texts.join('') })
    open.texts = []
  }
  for (const event of events) {
    if (event.type === 'part-delta') {
      // Media are not text.
      if (open !== undefined && open.type !== 'image' && open.type !== 'audio') open.texts.push(event.text)
    } else if (event.type === 'part-start') {
      const { type } = event.head
      if (open?.type === type && type !== 'image') continue
      flush()
      metered.push({ ...event, head: type === 'native' ? { ...event.head, value: undefined } : event.head })
      open = { type, texts: [], part: event.part }
    } else if (event.type !== 'part-end') {
      flush()
      metered.push(event)
    }
  }
  flush()
  return metered
}
