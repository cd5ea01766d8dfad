import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../src/config/load.ts'
import { expectBookRight } from './audit.ts'
import type { SmallDisk } from './small-disk.ts'

/** A running Sluice: a process of its own on a free port, with a data folder of its own. */
export type Gateway = {
  url: string
  /** The pay-as-you-go key. */
  key: string
  pid: number
  data: string
  /** What it printed so far. */
  output(): { stdout: string; stderr: string }
  kill(signal: NodeJS.Signals): void
  exited: Promise<number>
  /** Ends it at once, and fails where its book is not right. */
  stop(): Promise<void>
}

/** Variables that switch providers on stay out, so that a developer's own keys are never used by a test. */
const ENVIRONMENT = ['PATH', 'HOME', 'TMPDIR', 'LANG'] as const

export async function startGateway(
  options: { config?: string; env?: Record<string, string>; data?: string; disk?: SmallDisk; key?: string } = {},
): Promise<Gateway> {
  const { disk } = options
  const data = disk?.path ?? options.data ?? mkdtempSync(join(tmpdir(), 'sluice-test-'))
  const key = options.key ?? `sk-ai-v1-test${'0123456789abcdef'.repeat(3)}`
  const config = join(disk?.folder ?? data, 'test-config.yaml')
  writeFileSync(config, billed(options.config ?? ''))
  const child = Bun.spawn(
    [
      ...(disk?.command ?? []),
      process.execPath,
      join(import.meta.dir, '../src/main.ts'),
      'serve',
      '--config',
      config,
      '--data',
      data,
      '--port',
      '0',
    ],
    {
      env: {
        ...Object.fromEntries(ENVIRONMENT.map((name) => [name, process.env[name]])),
        SLUICE_KEY: key,
        OLLAMA_HOST: 'http://127.0.0.1:9',
        ...options.env,
      },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'pipe',
    },
  )
  const printed = { stdout: '', stderr: '' }
  const url = await new Promise<string>((resolve, reject) => {
    void collect(child.stdout, (text) => {
      printed.stdout += text
      const found = /^listening on (\S+)$/m.exec(printed.stdout)?.[1]
      if (found !== undefined) resolve(found)
    })
    void collect(child.stderr, (text) => {
      printed.stderr += text
    })
    void child.exited.then((code) =>
      reject(new Error(`sluice ended with ${code} before it listened:\n${printed.stdout}${printed.stderr}`)),
    )
  })
  return {
    url,
    key,
    data,
    pid: child.pid,
    exited: child.exited,
    output: () => printed,
    kill: (signal) => child.kill(signal),
    stop: async () => {
      child.kill('SIGKILL')
      await child.exited
      try {
        await expectBookRight(disk?.copy() ?? data, loadConfig({ file: config }, { ...options.env }).billing.overdraft)
      } finally {
        if (options.data === undefined && disk === undefined) rmSync(data, { recursive: true, force: true })
      }
    },
  }
}

/** Tests that say nothing of billing use models without a price. */
const billed = (config: string): string =>
  /^billing:/m.test(config) ? config : `${config.replace(/^\{\}\n/, '')}\nbilling: { unpriced: free }\n`

async function collect(stream: ReadableStream<Uint8Array>, take: (text: string) => void): Promise<void> {
  const decoder = new TextDecoder()
  for await (const chunk of stream) take(decoder.decode(chunk, { stream: true }))
}
