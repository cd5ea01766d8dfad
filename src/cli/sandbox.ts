import { serveSandbox } from '../providers/sandbox/server.ts'
import { yieldToServer } from '../worker/serve.ts'

/** The process with the sandbox for heavy requests. The server starts it; see src/providers/sandbox-process.ts. */
yieldToServer()
console.log(serveSandbox({ host: '127.0.0.1', port: 0 }).url)
for await (const _ of Bun.stdin.stream()) continue
process.exit(0)
