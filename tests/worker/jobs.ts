import { appendFileSync } from 'node:fs'
import { GatewayError } from '../../src/error.ts'
import { serveJobs } from '../../src/worker/serve.ts'

/** A worker for tests. */

let collections = 0

await serveJobs({
  echo: async (input: unknown, bytes) => ({ output: input, bytes: [bytes] }),
  write: async ({ file, text }: { file: string; text: string }) => {
    appendFileSync(file, text)
    await Bun.sleep(5)
    return { output: undefined }
  },
  refuse: async () => {
    throw new GatewayError('unsupported_parameter', 'tools[3]: is wrong', {
      param: 'tools[3]',
      status: 418,
      metadata: { found: [1, 2] },
    })
  },
  break: async () => {
    throw new TypeError('a defect')
  },
  die: () => process.exit(1),
  pid: async () => ({ output: process.pid }),
  grow: async () => {
    process.memoryUsage.rss = () => 2 ** 30
    return { output: process.pid }
  },
  /** Its output: collections so far. */
  keep: async (mebibytes: number) => {
    process.memoryUsage.rss = () => mebibytes * 2 ** 20
    Bun.gc = () => ++collections
    return { output: collections }
  },
  environment: async () => ({ output: process.env }),
})
