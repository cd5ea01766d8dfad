import type { Given } from './command.ts'
import { askServer } from './server.ts'

/** Prints the readiness of the server that runs. Fails where it takes no requests. */
export async function checkHealth(given: Given): Promise<void> {
  const { url, status, text } = await askServer(given, '/readyz')
  if (status !== 200) throw new Error(`${url} says: ${text}`)
  console.log(text)
  // The connection that is kept for another request would keep the process.
  process.exit(0)
}
