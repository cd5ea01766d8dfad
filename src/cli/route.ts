import type { RouteAnswer } from '../endpoints/management/answers.ts'
import { tryParse } from '../json/parse.ts'
import { columns, UsageError, type Given } from './command.ts'
import { readInput } from './input.ts'
import { askServer } from './server.ts'

/** Prints how the running server would choose among the endpoints of a model now. */
export async function showRoute(given: Given, model: string): Promise<void> {
  const key = given.text('key') ?? process.env.SLUICE_MANAGEMENT_KEY
  if (key === undefined || key === '')
    throw new UsageError('set $SLUICE_MANAGEMENT_KEY or --key to a management key of the running server')
  const file = given.text('request')
  const protocol = given.text('protocol')
  const members = [
    `"model":${JSON.stringify(model)}`,
    ...(protocol === undefined ? [] : [`"protocol":${JSON.stringify(protocol)}`]),
    // As it is written, so that its numbers keep their spelling.
    ...(file === undefined ? [] : [`"body":${readInput(file)}`]),
  ]
  const { url, status, text } = await askServer(given, '/v1/management/route', { key, body: `{${members.join()}}` })
  if (status !== 200) throw new Error(messageIn(text) ?? `${url} says: ${text}`)
  console.log(given.on('json') ? JSON.stringify(JSON.parse(text), null, 2) : tableOf(JSON.parse(text) as RouteAnswer))
  // The connection that is kept for another request would keep the process.
  process.exit(0)
}

const messageIn = (text: string): string | undefined =>
  (tryParse(text) as { error?: { message?: string } } | undefined)?.error?.message

const HEAD = ['', 'ENDPOINT', 'MODEL', 'WHY', 'SCORE', 'IN FLIGHT', 'SUCCESS', 'FIRST TOKEN', 'TOKENS/S', 'BREAKER']

function tableOf({ model, protocol, strategy, candidates, left_out: leftOut }: RouteAnswer): string {
  const rows = candidates.map((one, at) => [
    `${at + 1}.`,
    labelOf(one),
    one.model,
    one.reason,
    one.score.toPrecision(3),
    String(one.in_flight),
    one.success_rate === null ? '' : `${Math.round(one.success_rate * 100)} %`,
    one.first_token_ms === null ? '' : `${one.first_token_ms} ms`,
    one.tokens_per_second === null ? '' : String(one.tokens_per_second),
    one.breaker,
  ])
  const out = leftOut.map((one) => [
    labelOf(one),
    one.model,
    one.seconds === null ? one.reason : `${one.reason}, for ${one.seconds} s`,
  ])
  return [
    `${model}, requested in ${protocol}, strategy ${strategy}`,
    columns([HEAD, ...rows], ''),
    ...(out.length === 0 ? [] : [`Left out:\n${columns(out)}`]),
  ].join('\n\n')
}

const labelOf = ({ endpoint, fallback }: { endpoint: string; fallback: string | null }): string =>
  fallback === null ? endpoint : `${endpoint} (${fallback})`
