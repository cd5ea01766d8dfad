import type { Model } from '../../api/answers.ts'
import { To } from '../../app/scope.tsx'
import { Fact, Facts } from '../../parts/facts.tsx'
import { Origin } from '../../parts/object-form.tsx'
import { visible } from '../../parts/visible.ts'
import { count } from '../../parts/when.ts'

const known = (value: boolean | null): string => (value === null ? 'unknown' : value ? 'yes' : 'no')

const tokens = (value: number | null): string => (value === null ? 'unknown' : `${count(value)} tokens`)

/** One model: capabilities, endpoints in their order, every price item. */
export function ModelSheet({ model }: { model: Model }) {
  const { id, source, owned_by, context_length, max_output_tokens, input, output, reasoning, tools } = model
  return (
    <div className="stack-wide">
      <Facts>
        <Fact name="From">{source === 'catalogue' ? source : <Origin set_in={model.set_in} set={model.set} />}</Fact>
        <Fact name="Owned by">{visible(owned_by)}</Fact>
        <Fact name="Context">{tokens(context_length)}</Fact>
        <Fact name="Most output">{tokens(max_output_tokens)}</Fact>
        <Fact name="Reads">{input?.join(', ') ?? 'unknown'}</Fact>
        <Fact name="Writes">{output?.join(', ') ?? 'unknown'}</Fact>
        <Fact name="Reasoning">{known(reasoning)}</Fact>
        <Fact name="Tools">{known(tools)}</Fact>
      </Facts>
      <div className="links">
        <To path={`/playground?model=${encodeURIComponent(id)}`} className="link">
          Try it
        </To>
        <To path={`/requests?model=${encodeURIComponent(id)}`} className="link">
          Requests
        </To>
      </div>
      <section>
        <h3>Endpoints, in their order</h3>
        <ul className="rows rows-boxed">
          {model.endpoints.map((endpoint) => (
            <li key={`${endpoint.provider} ${endpoint.model} ${endpoint.protocol}`} className="rows-link">
              <span className="rows-main">
                {endpoint.provider} <span className="dim">{visible(endpoint.model)}</span>
              </span>
              <span className={endpoint.on ? 'dim' : 'refused'}>{endpoint.on ? (endpoint.protocol ?? '') : 'off'}</span>
            </li>
          ))}
        </ul>
      </section>
      <section>
        <h3>Prices, USD per million tokens or per unit</h3>
        {model.prices === null ? (
          <p className="dim">No price is known: requests are refused or free, as billing.unpriced says.</p>
        ) : (
          <ul className="rows rows-boxed">
            {Object.entries(model.prices).map(([item, rate]) => (
              <li key={item} className="rows-link">
                <span className="rows-main">{item}</span>
                <span className="number">
                  {rate?.usd}
                  {rate?.tiers.map(({ over, usd }) => (
                    <span key={over} className="dim">
                      , over {count(over)}: {usd}
                    </span>
                  ))}
                </span>
              </li>
            ))}
          </ul>
        )}
        {model.price_version !== null && <p className="dim small rows-note">Version {model.price_version}</p>}
      </section>
    </div>
  )
}
