import { afterEach } from 'bun:test'
import type { Catalogue } from '../../src/providers/catalogue.ts'
import { LocalModels } from '../../src/providers/local.ts'

/** Local model servers for one test file, and the models that are discovered at them. */

const running: ReturnType<typeof Bun.serve>[] = []

/** Stops the servers of a test file after each of its tests. */
export const stopServersAfterEach = (): void =>
  afterEach(async () => {
    for (const server of running.splice(0)) await server.stop(true)
  })

/** Starts a server and returns its host and port. */
export const serve = (respond: (request: Request) => Response | Promise<Response>): string => {
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: respond })
  running.push(server)
  return `127.0.0.1:${server.port}`
}

/** Stops the server that was started last. */
export const stopLast = (): Promise<void> => running.pop()!.stop(true)

/** Refreshes the catalogue with the models of the Ollama server at this host; returns their ids. */
export const refresherOf = (catalogue: Catalogue, host: string): (() => Promise<string[]>) => {
  const local = new LocalModels(catalogue, { OLLAMA_HOST: host })
  return () => local.refresh(new AbortController().signal)
}

/** A host without a server. */
export const NO_SERVER = '127.0.0.1:9'

/** The reasoning efforts that Ollama accepts for every model. */
export const EFFORTS = ['none', 'low', 'medium', 'high', 'max']

/** The listed models of a provider with their capabilities. */
export const listedModels = (catalogue: Catalogue, provider: string): object[] =>
  catalogue
    .list()
    .filter(({ ownedBy }) => ownedBy === provider)
    .map(({ id, contextLength, capabilities }) => ({ id, contextLength, ...capabilities }))
