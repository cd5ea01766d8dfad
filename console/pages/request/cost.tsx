import type { Named } from '../../api/answers.ts'
import { exactUsd, headUsd } from '../../parts/money.ts'
import { Money } from '../../parts/money.tsx'
import { visible } from '../../parts/visible.ts'
import { count } from '../../parts/when.ts'
import type { Posting, Rating, RequestDetail } from './detail.ts'
import { Fact, Facts } from '../../parts/facts.tsx'

/** Rating, hold and postings. */
export function Cost({ request }: { request: RequestDetail }) {
  const { rating, hold, postings, flows, cost_usd, outcome } = request
  return (
    <>
      {rating !== null && rating.items.length > 0 ? (
        <section className="request-part">
          <h3>Items</h3>
          <Items rating={rating} />
        </section>
      ) : (
        <p className="request-part">
          {outcome === 'refused'
            ? 'It was refused before it could cost anything.'
            : outcome === 'open'
              ? 'It is rated when it ends.'
              : 'Nothing was rated: the model has no price, or its outcome is free.'}
        </p>
      )}
      <section className="request-part">
        <h3>Hold</h3>
        <Facts>
          <Fact name="Held at most, USD">
            <Money usd={hold?.held_usd ?? null} why="the hold is not recorded" />
          </Fact>
          <Fact name="Settled, USD">
            <Money usd={hold?.settled_usd ?? cost_usd} />
          </Fact>
          {flows !== null && <Fact name="Flows of the subscription">{count(flows)}</Fact>}
        </Facts>
      </section>
      {postings.length > 0 && (
        <section className="request-part">
          <h3>Postings</h3>
          <Postings postings={postings} account={request.account} />
        </section>
      )}
    </>
  )
}

function Items({ rating }: { rating: Rating }) {
  return (
    <>
      <div className="table-scroll" tabIndex={0} role="region" aria-label="Rated items">
        <table className="table">
          <thead>
            <tr>
              <th>Item</th>
              <th className="right">Quantity</th>
              <th className="right">Rate, USD</th>
              <th className="wide right">Price, USD</th>
              <th className="wide right">Discount, USD</th>
              <th className="right">Bill, USD</th>
            </tr>
          </thead>
          <tbody>
            {rating.items.map(({ item, quantity, rate_usd, origin_usd, discount_usd, bill_usd }) => (
              <tr key={item}>
                <td>{item}</td>
                <td className="right number">{count(quantity)}</td>
                <td className="right number" title={exactUsd(rate_usd)}>
                  {headUsd(rate_usd)}
                </td>
                <td className="wide right">
                  <Money usd={origin_usd} />
                </td>
                <td className="wide right">
                  <Money usd={discount_usd} />
                </td>
                <td className="right">
                  <Money usd={bill_usd} />
                </td>
              </tr>
            ))}
            <tr className="table-sum">
              <td colSpan={3}>Together</td>
              <td className="wide right">
                <Money usd={rating.origin_usd} />
              </td>
              <td className="wide right">
                <Money usd={rating.discount_usd} />
              </td>
              <td className="right">
                <Money usd={rating.bill_usd} />
              </td>
            </tr>
          </tbody>
        </table>
      </div>
      <p className="dim request-note">
        Rates are for a million tokens, or for one piece. Each item is rounded once, to a nano-USD. Price version{' '}
        <code>{rating.version}</code>.
      </p>
    </>
  )
}

function Postings({ postings, account }: { postings: readonly Posting[]; account: Named | null }) {
  /** `credit acct_1` as `credit, team`, as on the page Book. */
  const named = (side: string): string => {
    const [kind, owner] = side.split(' ')
    const name = owner === account?.id ? (account?.name ?? owner) : owner
    return name === undefined ? side : `${kind}, ${visible(name)}`
  }
  return (
    <div className="table-scroll" tabIndex={0} role="region" aria-label="Postings">
      <table className="table">
        <thead>
          <tr>
            <th>Debit</th>
            <th>Credit</th>
            <th className="wide">Kind</th>
            <th className="right">Amount, USD</th>
          </tr>
        </thead>
        <tbody>
          {postings.map(({ kind, debit, credit, amount_usd }, index) => (
            <tr key={index}>
              <td>{named(debit)}</td>
              <td>{named(credit)}</td>
              <td className="wide">{kind}</td>
              <td className="right">
                <Money usd={amount_usd} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
