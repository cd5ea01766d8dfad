import type { AppContext } from '../context.ts'
import { log } from '../log/log.ts'

/** Says where the server is and what it can reach. Of several on one port, the process that started them says where. */
export function announce({ catalogue, config }: AppContext, url: string): void {
  if (config.worker === undefined) console.log(`listening on ${url}`)
  const providers = catalogue.providers().map((provider) => `${provider.id} (${provider.foundBy})`)
  const body = '{"model":"sandbox/chat","messages":[{"role":"user","content":"Hello"}]}'
  log.info(`listening on ${url}, providers: ${providers.join(', ')}`)
  log.hint(
    'try, with a pay-as-you-go key in SLUICE_KEY:\n' +
      `curl ${url}/v1/chat/completions -H "authorization: Bearer $SLUICE_KEY" ` +
      `-H 'content-type: application/json' -d '${body}'`,
  )
}

/** Says what a server that stops waits for. */
export function announceDrain({ inFlight: { size }, config: { timeouts } }: AppContext): void {
  if (size === 0) return
  const requests = size === 1 ? '1 request' : `${size} requests`
  log.info(`stopping: waiting for ${requests}, at most ${timeouts.drainMs / 1000} s; a second signal ends them at once`)
}
