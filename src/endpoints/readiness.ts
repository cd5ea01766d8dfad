import type { AppContext } from '../context.ts'

/**
 * `GET /readyz`: 503 while no generation is accepted. While only what is to be kept or what needs files is refused, the
 * answer is 200 and says so.
 */
export async function getReadiness({ draining, ledger, space, store, files }: AppContext): Promise<Response> {
  if (draining) return new Response('draining\n', { status: 503 })
  const outage = await store.outage()
  if (outage !== undefined) return new Response(`degraded: ${outage}\n`, { status: 503 })
  const { refused, reason } = await space.shortage()
  if (refused === 'all') return new Response(`degraded: ${reason}\n`, { status: 503 })
  if (!ledger.isWritable) return new Response('degraded: charges cannot be recorded\n', { status: 503 })
  const away = files.health?.outage
  const reasons = [
    ...(refused === 'nothing' ? [] : [reason]),
    ...(away === undefined ? [] : [`the bucket of files cannot be used (${away}); refused: what needs files`]),
  ]
  return new Response(reasons.length === 0 ? 'ok\n' : `degraded: ${reasons.join('; ')}\n`)
}
