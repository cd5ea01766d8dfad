import { Tabs } from '@mantine/core'
import { To } from '../../app/scope.tsx'
import { useSigned } from '../../app/session.tsx'
import { Empty } from '../../parts/empty.tsx'
import { Loaded } from '../../parts/fault.tsx'
import { JsonView } from '../../parts/json-view.tsx'
import { headUsd } from '../../parts/money.ts'
import { visible } from '../../parts/visible.ts'
import { count, duration } from '../../parts/when.ts'
import { Wire } from '../../parts/wire.tsx'
import { BodyColumns, useBodies } from '../request/bodies.tsx'
import { isShownImage } from './answer.ts'
import { Comparison } from './comparison.tsx'
import type { Draft } from './draft.ts'
import type { RunState } from './run.ts'

/** An answer for each model, beside each other. */
export function Columns({ draft, runs }: { draft: Draft; runs: readonly (RunState | undefined)[] }) {
  const { models, form, change } = draft
  if (runs.length === 0)
    return (
      <section className="panel playground-none">
        <Empty icon="play" title="The answer appears here">
          Requests are sent from this page, as a client would, with a key of yours that ends within the hour. They cost
          what they cost everywhere; conversations with the sandbox are free.
        </Empty>
      </section>
    )
  const goOn = (text: string): void =>
    change({
      form: {
        ...form,
        turns: [...form.turns, { role: 'assistant', text, media: [] }, { role: 'user', text: '', media: [] }],
      },
    })
  return (
    <div className="playground-answers">
      <div className="playground-columns" data-number={runs.length}>
        {runs.map((run, index) => (
          <Column key={index} model={models[index] ?? ''} run={run} onGoOn={runs.length === 1 ? goOn : undefined} />
        ))}
      </div>
      {runs.length > 1 && <Comparison models={models} runs={runs} />}
    </div>
  )
}

type ColumnProps = { model: string; run: RunState | undefined; onGoOn: ((text: string) => void) | undefined }

function Column({ model, run, onGoOn }: ColumnProps) {
  return (
    <section className="panel panel-flush playground-column" aria-label={`Answer of ${model}`}>
      <header className="playground-column-head">
        <h2 className="cut" title={model}>
          {visible(model)}
        </h2>
        <Status run={run} />
      </header>
      {run !== undefined && (
        <Tabs defaultValue="answer" keepMounted={false}>
          <Tabs.List>
            <Tabs.Tab value="answer">Answer</Tabs.Tab>
            <Tabs.Tab value="sent">Sent</Tabs.Tab>
            <Tabs.Tab value="received">Received</Tabs.Tab>
            <Tabs.Tab value="wire">Wire</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="answer" className="playground-panel">
            <AnswerView run={run} />
            <Figures run={run} />
            {run.status === 'done' &&
              onGoOn !== undefined &&
              run.answer.text !== '' &&
              run.answer.calls.length === 0 && (
                <button type="button" className="link" onClick={() => onGoOn(run.answer.text)}>
                  Go on with this answer
                </button>
              )}
          </Tabs.Panel>
          <Tabs.Panel value="sent" className="playground-panel">
            <p className="playground-path">
              <code>POST {run.sent.path}</code>
            </p>
            <JsonView text={run.sent.body} name="request.json" />
          </Tabs.Panel>
          <Tabs.Panel value="received" className="playground-panel">
            <Wire http={run.http} frames={run.frames} body={run.received} />
          </Tabs.Panel>
          <Tabs.Panel value="wire" className="playground-panel">
            <BothSides run={run} />
          </Tabs.Panel>
        </Tabs>
      )}
    </section>
  )
}

/** The wire of both sides, which is captured for the user of the playground where sluice.yaml allows it. */
function BothSides({ run: { record, generationId } }: { run: RunState }) {
  const { capture } = useSigned().session
  if (capture.most === 'off')
    return (
      <p className="dim">
        What is sent to the provider is captured where sluice.yaml has <code>{'capture: { most: all }'}</code>.
      </p>
    )
  if (record === undefined || generationId === undefined)
    return <p className="dim">It is shown once the request has ended.</p>
  return <WireOf id={generationId} />
}

function WireOf({ id }: { id: string }) {
  const asked = useBodies(id)
  return (
    <Loaded asked={asked} height={200} lines={3}>
      {({ parts }) => <BodyColumns id={id} parts={parts} />}
    </Loaded>
  )
}

function Status({ run }: { run: RunState | undefined }) {
  if (run === undefined || run.status === 'running') return <span className="tone-open">running</span>
  if (run.status === 'done') return <span className="dim number">{duration(run.totalMs)}</span>
  return <span className={run.status === 'failed' ? 'failed' : 'dim'}>{run.status}</span>
}

/** Texts of a model, as text: nothing of them is markup here. */
function AnswerView({ run: { answer, status, http } }: { run: RunState }) {
  const { text, reasoning, refusal, calls, images, error } = answer
  return (
    <div className="answer" aria-live="polite" aria-busy={status === 'running'}>
      {reasoning !== '' && (
        <details className="answer-reasoning">
          <summary>Reasoning, {count(reasoning.length)} characters</summary>
          <p>{visible(reasoning)}</p>
        </details>
      )}
      {text !== '' && <p className="answer-text">{visible(text)}</p>}
      {refusal !== '' && <p className="answer-text refused">{visible(refusal)}</p>}
      {calls.map(({ name, arguments: given }, index) => (
        <div key={index} className="answer-call">
          <span className="dim">calls</span> <code>{visible(name)}</code>
          <JsonView text={given} name={`${name}.json`} />
        </div>
      ))}
      {images.map((url, index) => (
        <AnswerImage key={index} url={url} />
      ))}
      {error !== undefined && (
        <p className="answer-error failed" role="alert">
          {http !== undefined && http.status >= 400 && `HTTP ${http.status}: `}
          {visible(error)}
        </p>
      )}
      {status === 'done' && text === '' && refusal === '' && calls.length === 0 && images.length === 0 && (
        <p className="dim">The answer has no content.</p>
      )}
    </div>
  )
}

/** An image that came with the answer. One at an address is not loaded: its host would learn who looks at it. */
function AnswerImage({ url }: { url: string }) {
  if (isShownImage(url)) return <img className="answer-image" src={url} alt="Made by the model" />
  const isAddress = /^https?:/.test(url)
  return (
    <p className="dim">
      {isAddress ? 'An image, which is not loaded from other hosts: ' : 'An image: see what was received.'}
      {isAddress && <code>{visible(url)}</code>}
    </p>
  )
}

function Figures({ run }: { run: RunState }) {
  const { answer, firstMs, totalMs, record, generationId, requestId } = run
  const id = generationId ?? requestId
  if (totalMs === undefined) return null
  const seconds = firstMs === undefined ? 0 : (totalMs - firstMs) / 1000
  const speed = answer.usage !== undefined && seconds > 0.05 ? answer.usage.output / seconds : undefined
  const parts = [
    firstMs === undefined ? undefined : `${duration(firstMs)} first`,
    duration(totalMs),
    speed === undefined ? undefined : `${count(Math.round(speed))} tok/s`,
    answer.usage === undefined ? undefined : `${count(answer.usage.input)} + ${count(answer.usage.output)} tokens`,
    record === undefined ? undefined : `${headUsd(record.cost_usd)} USD`,
    answer.finish === undefined ? undefined : answer.finish,
    record !== undefined && record.losses > 0 ? `${record.losses} lost` : undefined,
  ]
  return (
    <p className="playground-figures dim number">
      {parts.filter((part) => part !== undefined).join(', ')}
      {id !== undefined && (
        <To path={`/requests/${encodeURIComponent(id)}`} className="link">
          Request
        </To>
      )}
    </p>
  )
}
