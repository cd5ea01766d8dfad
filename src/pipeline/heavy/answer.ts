import type { GatewayError } from '../../error.ts'
import type { GenerationRequest } from '../../generation/request.ts'
import type { Usage } from '../../generation/usage.ts'
import { protocols } from '../../protocols/index.ts'
import type { Upstream } from '../../providers/attempt.ts'
import { errorOf } from '../../worker/errors.ts'
import { workers } from '../../worker/pool.ts'
import type { Generation } from '../hooks.ts'
import type { AnswerJob, AnswerResult } from './answer-job.ts'
import { HEAVY } from './weight.ts'

/** Reports whether a response in one piece has to be read and written in another process. */
export const isHeavyAnswer = (text: string, { route, issuedIds }: Generation): boolean =>
  text.length >= HEAVY.answer &&
  // These look at the events or at the text themselves.
  route.hooks.onEvents === undefined &&
  issuedIds === undefined

/** Has a response read and written; meters it, and gives its bytes. `unread`: why it could only be passed on. */
export async function readHeavyAnswer(
  generation: Generation,
  upstream: Upstream,
  text: string,
): Promise<{ body: Buffer; unread: GatewayError | undefined }> {
  const { open, replayRecorder, route } = generation
  const { meter } = open
  let { output, bytes } = await answer(generation, upstream, text, undefined)
  meter.record(output.events)
  replayRecorder?.adopt(output.replayState)
  const counting = meter.lacksUsage ? meter.count() : undefined
  if (counting !== undefined) ({ output, bytes } = await answer(generation, upstream, text, await counting))
  for (const { code, path, reason } of output.losses) upstream.context.losses?.add(code, path, reason)
  const { kept, length } = output
  let at = length
  if (kept !== undefined)
    route.hooks.keepTexts?.({
      ...kept,
      output: kept.output.map(({ id, length: itemBytes }) => ({ id, text: bytes.subarray(at, (at += itemBytes)) })),
    })
  return { body: bytes.subarray(0, length), unread: output.unread && errorOf(output.unread) }
}

async function answer(
  { open, replayRecorder }: Generation,
  { protocol, endpoint, transforms, context, sameProtocol }: Upstream,
  text: string,
  counted: Usage | undefined,
): Promise<{ output: AnswerResult; bytes: Buffer }> {
  const { request, rawRequest, responseIdentity, report, losses, keep } = context
  const { system: _system, turns: _turns, tools: _tools, extras: _extras, ...settings } = request as GenerationRequest
  const job: AnswerJob = {
    protocol: protocol.name,
    quirks: endpoint.target.quirks,
    transforms,
    request: settings,
    body: protocols[request.protocol].serve.repeatedMembers?.(rawRequest.body) ?? {},
    responseIdentity,
    losses: sameProtocol ? undefined : (losses?.losses ?? []),
    report: report === true,
    keeps: keep !== undefined,
    replay: replayRecorder?.terms,
    counted,
  }
  const done = await workers.run({
    kind: 'answer',
    input: job,
    bytes: [Buffer.from(text)],
    accountId: open.request.accountId,
    signal: NEVER,
  })
  return { output: done.output as AnswerResult, bytes: done.bytes }
}

/** The response of a client that left is metered, too. */
const NEVER = new AbortController().signal
