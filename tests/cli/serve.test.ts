import { describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { listening } from './listening.ts'
import { ofSqlite, once, withStoreText } from '../stores.ts'
import { MODULES, newFolder, run, scratch, serve, start, statusOf, useScratch } from './starting.ts'

useScratch()

/**
 * Polls until a key gets this status, for the two seconds that a change may take. Returns the last status. Polls are
 * counted instead of time, so that a busy machine has more of it.
 */
async function until(url: string, key: string, status: number): Promise<number> {
  let seen = await statusOf(url, key)
  for (let polls = 0; seen !== status && polls < 40; polls++) {
    await Bun.sleep(50)
    seen = await statusOf(url, key)
  }
  return seen
}

describe('serve', () => {
  test('prints the first keys, exits with 0 on SIGTERM, and accepts the keys after a restart', async () => {
    const folder = newFolder()
    const chosen = 'sk-ai-v1-chosen_by_the_operator'
    const first = await serve(folder, { SLUICE_KEY: chosen }, MODULES)
    const keys = first.lines.filter((line) => line.startsWith('key '))
    expect(keys.map((line) => line.split(' ')[1])).toEqual(['pay-as-you-go', 'subscription', 'management'])
    expect(keys[0]).toBe(`key pay-as-you-go ${chosen}`)
    expect(await statusOf(first.url, chosen)).toBe(200)
    expect(await statusOf(first.url, `${chosen}x`)).toBe(401)
    first.child.kill('SIGTERM')
    expect(await first.child.exited).toBe(0)
    const second = await serve(folder, {}, MODULES)
    expect(second.lines.filter((line) => line.startsWith('key '))).toEqual([])
    expect(await statusOf(second.url, chosen)).toBe(200)
    second.child.kill('SIGINT')
    expect(await second.child.exited).toBe(0)
  }, 30_000)

  test('names --port if its port is in use, and creates no keys before it has one', async () => {
    const taken = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response() })
    const [folder, port] = [newFolder(), taken.port]
    const { code, out, err } = await run('serve', '--port', String(port), '--data', folder)
    await taken.stop(true)
    expect({ code, out, err }).toEqual({
      code: 1,
      out: '',
      err: `sluice: port ${port} of 127.0.0.1 is in use by another program; choose another one with --port\n`,
    })
    const { child, lines } = await serve(folder)
    expect(lines.filter((line) => line.startsWith('key ')).length).toBe(3)
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
  }, 15_000)

  test.skipIf(Bun.which('curl') === null)(
    'the printed request works with the key in a variable, at the first start and later',
    async () => {
      const folder = newFolder()
      const env = { SLUICE_KEY: 'sk-ai-v1-chosen_by_the_operator' }
      const file = join(scratch, 'text.yaml')
      writeFileSync(file, await withStoreText('log: { format: text, requests: none }', folder))
      for (let starts = 0; starts < 2; starts++) {
        const { child } = await listening(start(['serve', '--port', '0', '--data', folder, '--config', file], env))
        const command = /^curl .*$/m
        let printed = ''
        for await (const bytes of child.stderr) {
          printed += Buffer.from(bytes).toString()
          if (!command.test(printed) || !printed.endsWith('\n')) continue
          const pasted = Bun.spawnSync(['sh', '-c', command.exec(printed)![0]], {
            env: { ...env, PATH: process.env.PATH! },
          })
          expect(pasted.stdout.toString()).toContain('"object":"chat.completion"')
          child.kill('SIGTERM')
        }
        expect(await child.exited).toBe(0)
      }
    },
    30_000,
  )

  ofSqlite('folder')(
    'starts again at once after SIGKILL, and refuses to start beside another server on the folder',
    async () => {
      const folder = newFolder()
      const first = await serve(folder)
      const key = first.lines[0]!.split(' ')[2]!
      const refused = await run('serve', '--port', '0', '--data', folder)
      expect(refused.code).toBe(1)
      expect(refused.err).toContain(`in use by another Sluice (process ${first.child.pid})`)
      first.child.kill('SIGKILL')
      await first.child.exited
      const again = await serve(folder)
      expect(await statusOf(again.url, key)).toBe(200)
      again.child.kill('SIGKILL')
      await again.child.exited
    },
    30_000,
  )

  test('sees created, rotated and revoked keys and a changed account status within two seconds', async () => {
    const folder = newFolder()
    const { child, url } = await serve(folder)
    const keyOf = async (...args: string[]): Promise<{ id: string; text: string }> =>
      JSON.parse((await run(...args, '--json', '--data', folder)).out) as { id: string; text: string }
    const { id, text } = await keyOf('keys', 'create')
    expect(await until(url, text, 200)).toBe(200)
    const rotated = await keyOf('keys', 'rotate', id)
    expect(await until(url, rotated.text, 200)).toBe(200)
    expect(await statusOf(url, text)).toBe(401)
    const late = await keyOf('keys', 'rotate', rotated.id, '--grace', '1h')
    expect(await until(url, late.text, 200)).toBe(200)
    expect(await statusOf(url, rotated.text)).toBe(200)
    await run('keys', 'revoke', rotated.id, '--data', folder)
    expect(await until(url, rotated.text, 401)).toBe(401)
    expect(await statusOf(url, late.text)).toBe(200)
    await run('accounts', 'status', 'default', 'suspended', '--data', folder)
    expect(await until(url, late.text, 403)).toBe(403)
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
  }, 40_000)

  once(
    'refuses the key of the example file',
    async () => {
      const file = join(scratch, 'copied.yaml')
      await Bun.write(file, Bun.file(join(import.meta.dir, '../../sluice.example.yaml')))
      for (const words of [
        ['serve', '--port', '0', '--data', newFolder()],
        ['config', 'check'],
      ]) {
        const { code, out, err } = await run(...words, '--config', file)
        expect({ code, out, err }).toEqual({
          code: 1,
          out: '',
          err:
            `sluice: ${file}: keys[0].key is the public one of sluice.example.yaml; ` +
            'set SLUICE_FIXED_KEY to a key of your own, or remove keys from the file\n',
        })
      }
    },
    15_000,
  )

  once(
    'refuses a SLUICE_KEY that is too short',
    async () => {
      const child = start(['serve', '--port', '0', '--data', newFolder()], { SLUICE_KEY: 'sk-ai-v1-short' })
      expect(await child.exited).toBe(1)
      expect(await new Response(child.stderr).text()).toMatch(/^sluice: SLUICE_KEY must be [^\n]+\n$/)
    },
    15_000,
  )
})
