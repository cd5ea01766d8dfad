import { visible } from '../../parts/visible.ts'
import type { RequestDetail } from './detail.ts'

/** What the protocols in and out do not have in common. */
export function Translation({ request }: { request: RequestDetail }) {
  const { translation, api, attempts } = request
  const out = attempts.findLast(({ error }) => error === null)?.protocol ?? api
  if (translation.length === 0)
    return (
      <p className="request-part">
        {out === api
          ? `${api} on both sides: the request was passed on as it is.`
          : `From ${api} to ${out}: everything was carried.`}
      </p>
    )
  return (
    <section className="request-part">
      <p>
        {out === api ? api : `From ${api} to ${out}`}:{' '}
        {translation.length === 1 ? 'one field' : `${translation.length} fields`} could not be carried as{' '}
        {translation.length === 1 ? 'it was' : 'they were'}. With <code>x-sluice-strict: true</code> the request would
        have been refused.
      </p>
      <div className="table-scroll" tabIndex={0} role="region" aria-label="Losses">
        <table className="table">
          <thead>
            <tr>
              <th>Field</th>
              <th>Effect</th>
              <th>Why</th>
              <th>Code</th>
            </tr>
          </thead>
          <tbody>
            {translation.map(({ code, path, effect, reason }, index) => (
              <tr key={index}>
                <td>
                  <code>{visible(path ?? '-')}</code>
                </td>
                <td className="lossy">{effect}</td>
                <td className="wrap">{visible(reason ?? '')}</td>
                <td>
                  <code className="dim">{code}</code>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
