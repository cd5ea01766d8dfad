import type { AppContext } from '../context.ts'

/**
 * `GET /readyz`: 503 while no generation is accepted. While only what is to be kept is refused, the answer is 200 and
 * says so.
 */
export async function getReadiness({ draining, ledger, space, store }: AppContext): Promise<Response> {
  if (draining) return new Response('draining\n', { status: 503 })
  const outage = await store.outage()
  if (outage !== undefined) return new Response(`degraded: ${outage}\n`, { status: 503 })
  const { refused, reason } = await space.shortage()
  if (refused === 'all') return new Response(`degraded: ${reason}\n`, { status: 503 })
  if (!ledger.isWritable) return new Response('degraded: charges cannot be recorded\n', { status: 503 })
  return new Response(refused === 'nothing' ? 'ok\n' : `degraded: ${reason}\n`)
}
