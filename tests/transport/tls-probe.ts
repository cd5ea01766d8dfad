/** Started by tls.test.ts with trusted authorities in its environment: calls each URL argument and prints a line. */
import { asGatewayError } from '../../src/error.ts'
import { readAll, send } from '../../src/http/call.ts'

const timeouts = { connectMs: 5_000, firstByteMs: 5_000, idleMs: 5_000, totalMs: 10_000 }

for (const url of process.argv.slice(2)) {
  try {
    const incoming = await send({ url, method: 'GET', headers: {}, timeouts, signal: new AbortController().signal })
    console.log(`${incoming.status} ${await readAll(incoming.body, 1000)}`)
  } catch (error) {
    console.log(asGatewayError(error).message.replace(/:\d+/, ''))
  }
}
process.exit(0)
