import { visible } from '../../parts/visible.ts'
import type { RequestDetail } from './detail.ts'

/** The losses between the two protocols. */
export function Translation({ request }: { request: RequestDetail }) {
  const { translation, api, attempts } = request
  // A record of one good try has no protocol of it.
  const out = attempts.findLast(({ error }) => error === null)?.protocol ?? undefined
  const sides = out === undefined ? undefined : out === api ? `Both sides speak ${api}` : `From ${api} to ${out}`
  if (translation.length === 0)
    return (
      <p className="request-part">
        {sides === undefined
          ? 'Nothing was dropped or approximated.'
          : `${sides}: ${out === api ? 'the request was passed on as it is' : 'everything was carried'}.`}
      </p>
    )
  return (
    <section className="request-part">
      <p>
        {sides ?? 'Translation'}: {translation.length === 1 ? 'one field' : `${translation.length} fields`} could not be
        carried as {translation.length === 1 ? 'it was' : 'they were'}. With <code>x-sluice-strict: true</code> the
        request would have been refused.
      </p>
      <div className="table-scroll" tabIndex={0} role="region" aria-label="Losses">
        <table className="table">
          <thead>
            <tr>
              <th>Field</th>
              <th>Effect</th>
              <th>Why</th>
              <th className="wide">Code</th>
            </tr>
          </thead>
          <tbody>
            {translation.map(({ code, path, effect, reason }, index) => (
              <tr key={index}>
                <td className="wrap loss-path">
                  <code>{visible(path ?? '-')}</code>
                </td>
                <td className="lossy">{effect}</td>
                <td className="wrap">{visible(reason ?? '')}</td>
                <td className="wide">
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
