import { To } from '../../app/scope.tsx'
import { Fact, Facts } from '../../parts/facts.tsx'
import { Waterfall, type Step } from '../../parts/waterfall.tsx'
import { oneLine } from '../../parts/visible.ts'
import { count, duration } from '../../parts/when.ts'
import { When } from '../../parts/when.tsx'
import type { Named } from '../../api/answers.ts'
import type { RequestDetail, UsageBuckets } from './detail.ts'
import { accountPath, keyPath } from './sentence.ts'

/** Attempts in time, tokens, and who asked. */
export function Overview({ request }: { request: RequestDetail }) {
  const steps = stepsOf(request)
  return (
    <>
      {steps.length > 0 && (
        <section className="request-part">
          <h3>Attempts</h3>
          <Waterfall steps={steps} firstTokenMs={request.first_token_ms} totalMs={request.total_ms ?? 0} />
        </section>
      )}
      <div className="request-columns">
        <section className="request-part">
          <h3>Tokens</h3>
          <Tokens request={request} />
        </section>
        <section className="request-part">
          <h3>Request</h3>
          <RequestFacts request={request} />
        </section>
      </div>
    </>
  )
}

/** A request without recorded attempts had one, by its provider. */
function stepsOf(request: RequestDetail): Step[] {
  const { attempts, provider, at, first_token_ms, total_ms, outcome } = request
  // The record of a good first try of a model with a name of its own says no more.
  const asked = request.model === null ? null : `for ${request.model}`
  const isOpen = outcome === 'open'
  // An answer that broke off is in no try as an error.
  const tone = isOpen || outcome === 'failed' ? outcome : 'served'
  const lastMs = isOpen ? Date.now() - Date.parse(at) : total_ms
  if (attempts.length === 0)
    return provider === null || total_ms === null
      ? []
      : [{ label: provider, detail: '', startMs: 0, endMs: total_ms, tone, note: outcome.replace('-', ' ') }]
  let end = 0
  return attempts.map(({ provider: tried, model, protocol, started_ms, duration_ms, status, error }) => {
    const startMs = started_ms ?? end
    // The try that answered lasts to the end of its answer.
    end = error === null && lastMs !== null ? Math.max(lastMs, startMs) : startMs + (duration_ms ?? 0)
    const failure = error === null ? undefined : oneLine(failureText(status, error), 300)
    return {
      label: tried,
      detail: oneLine([model ?? asked, protocol].filter((text) => text !== null).join(', '), 120),
      startMs,
      endMs: end,
      tone: error === null ? tone : 'failed',
      note: failure ?? (isOpen ? (first_token_ms === null ? 'waiting' : 'answering') : answeredNote(tone, status)),
    }
  })
}

/** `529 overloaded: The provider is overloaded.` */
const failureText = (status: number | null, { code, message }: { code: string; message: string | null }): string =>
  `${status ?? ''} ${code}${message === null || message === '' ? '' : `: ${message}`}`.trim()

const answeredNote = (tone: Step['tone'], status: number | null): string =>
  tone === 'failed' ? 'broke off' : status === null ? 'answered' : `answered ${status}`

const BUCKETS: Readonly<Record<keyof UsageBuckets, string>> = {
  inputTokens: 'Input, new',
  cacheReadTokens: 'Input, from the cache',
  cacheWrite5mTokens: 'Input, into the cache for 5 minutes',
  cacheWrite1hTokens: 'Input, into the cache for an hour',
  inputAudioTokens: 'Input, audio',
  outputTokens: 'Output',
  reasoningTokens: 'Reasoning',
  outputAudioTokens: 'Output, audio',
  outputImageTokens: 'Output, images',
  webSearches: 'Web searches',
  images: 'Images',
  inputImageTokens: 'Input, images',
  cacheReadAudioTokens: 'Input, audio from the cache',
  outputVideoTokens: 'Output, video',
  imageToolInputTokens: 'Image tool, input',
  imageToolInputImageTokens: 'Image tool, input of images',
  imageToolOutputTokens: 'Image tool, output',
  imageToolOutputImageTokens: 'Image tool, output of images',
}

function Tokens({ request }: { request: RequestDetail }) {
  const buckets = Object.entries(request.usage ?? {}) as [keyof UsageBuckets, number][]
  const used = buckets.filter(([, tokens]) => tokens > 0)
  if (used.length === 0) return <p className="dim">No tokens were used.</p>
  const output = request.tokens.output + request.tokens.reasoning
  const { first_token_ms, total_ms } = request
  const seconds = first_token_ms === null || total_ms === null ? 0 : (total_ms - first_token_ms) / 1000
  return (
    <Facts>
      {used.map(([name, tokens]) => (
        <Fact key={name} name={BUCKETS[name]}>
          <span className="number">{count(tokens)}</span>
        </Fact>
      ))}
      {seconds > 0 && output > 1 && (
        <Fact name="Speed after the first token">
          <span className="number">{count(Math.round(output / seconds))} tokens/s</span>
        </Fact>
      )}
      {request.estimated && <Fact name="Counted">by Sluice: the provider reported none</Fact>}
    </Facts>
  )
}

function RequestFacts({ request }: { request: RequestDetail }) {
  const { at, account, key, client, api, attempts, streamed, finish_reason, first_token_ms, total_ms } = request
  const out = attempts.findLast(({ error }) => error === null)?.protocol ?? attempts.at(-1)?.protocol
  return (
    <Facts>
      <Fact name="At">
        <When at={at} />
      </Fact>
      <Fact name="Account">
        <Owner one={account} path={accountPath(account)} />
      </Fact>
      <Fact name="Key">
        <Owner one={key} path={keyPath(key)} />
      </Fact>
      {request.refusal && <Fact name="Refused with">HTTP {request.refusal.status}</Fact>}
      {request.refusal?.param && (
        <Fact name="Field">
          <code>{oneLine(request.refusal.param, 120)}</code>
        </Fact>
      )}
      <Fact name="Client">{client === null ? '-' : oneLine(client, 100)}</Fact>
      <Fact name="Protocol">{out === undefined || out === null || out === api ? api : `${api} to ${out}`}</Fact>
      {!request.refusal && (
        <>
          <Fact name="Answer">{streamed ? 'streamed' : 'in one piece'}</Fact>
          <Fact name="Finish">{finish_reason ?? '-'}</Fact>
          <Fact name="First token">
            <span className="number">{duration(first_token_ms)}</span>
          </Fact>
          <Fact name="Total">
            <span className="number">{duration(total_ms)}</span>
          </Fact>
        </>
      )}
    </Facts>
  )
}

function Owner({ one, path }: { one: Named | null; path: string }) {
  if (one === null) return '-'
  return (
    <To path={path} className="link">
      {oneLine(one.name ?? one.id, 80)}
    </To>
  )
}
