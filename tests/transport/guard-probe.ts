/**
 * Started by ssrf-guard-tls.test.ts with trusted authorities and proxies in its environment: fetches each URL argument
 * and prints a line. Every host resolves to this machine and is exempt.
 */
import { asGatewayError } from '../../src/error.ts'
import { guardedFetch } from '../../src/http/ssrf-guard.ts'

for (const url of process.argv.slice(2)) {
  try {
    const { bytes } = await guardedFetch(url, {
      private: [new URL(url).host],
      maxBytes: 100,
      totalMs: 5_000,
      resolve: async () => ['127.0.0.1'],
    })
    console.log(`got ${Buffer.from(bytes).toString()}`)
  } catch (error) {
    const { message, cause } = asGatewayError(error)
    console.log(`${message} (${cause instanceof Error ? cause.message.replace(/:\d+/, '') : 'no cause'})`)
  }
}
process.exit(0)
