import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { startGateway } from '../server.ts'

/** Where `.ci/run` installs `python/requirements.txt`. */
const PACKAGES = join(import.meta.dir, '../../node_modules/.python')
const python = Bun.which('python3')

const TEXT = 'four words of answer'

test.skipIf(python === null || !existsSync(PACKAGES))(
  'the official Python clients receive answers, streams, files and predictions',
  async () => {
    const gateway = await startGateway()
    try {
      const child = Bun.spawn([python!, join(import.meta.dir, 'python/smoke.py')], {
        env: {
          PATH: process.env.PATH ?? '',
          PYTHONPATH: PACKAGES,
          PYTHONDONTWRITEBYTECODE: '1',
          SLUICE_URL: gateway.url,
          SLUICE_KEY: gateway.key,
        },
        stdin: 'ignore',
        stdout: 'pipe',
        stderr: 'pipe',
      })
      const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
      const status = await child.exited
      expect([status, status === 0 ? '' : err]).toEqual([0, ''])
      expect(JSON.parse(out)).toEqual({
        openai: {
          chat: TEXT,
          usage: true,
          stream: TEXT,
          stream_usage: true,
          responses: TEXT,
          stored: TEXT,
          file: 'a note',
          models: true,
        },
        anthropic: { message: TEXT, stop_reason: 'end_turn', stream: TEXT, count: true, models: true },
        'google-genai': { whole: TEXT, stream: TEXT, count: true },
        replicate: {
          run: TEXT,
          prediction: ['succeeded', 'hidden'],
          reloaded: 'succeeded',
          file: ['note.txt', true, 6],
        },
      })
    } finally {
      await gateway.stop()
    }
  },
  120_000,
)
