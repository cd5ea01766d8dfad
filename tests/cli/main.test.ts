import { afterAll, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listening, type Started } from './listening.ts'
import { LATE_COMPILERS, program } from '../program.ts'
import { ofSqlite, once, withStoreOption, withStoreText } from '../stores.ts'

/** The command line of a checkout; most tests take the executable, which starts faster. */
const MODULES = [process.execPath, join(import.meta.dir, '../../src/main.ts')]
const scratch = mkdtempSync(join(tmpdir(), 'sluice-cli-'))
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

let folders = 0
const newFolder = (): string => join(scratch, `data-${folders++}`)

const start = (
  args: string[],
  env: Record<string, string> = {},
  command = [program()],
): Bun.Subprocess<'ignore', 'pipe', 'pipe'> =>
  Bun.spawn([...command, ...args], {
    cwd: scratch,
    env: { PATH: process.env.PATH ?? '', HOME: scratch, ...LATE_COMPILERS, ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })

type Ended = { code: number; out: string; err: string }

const run = async (...args: string[]): Promise<Ended> =>
  endOf(start(args.includes('--data') ? await withStoreOption(args) : args))

async function endOf(child: ReturnType<typeof start>): Promise<Ended> {
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, out, err }
}

const serve = async (folder: string, env: Record<string, string> = {}, command?: string[]): Promise<Started> =>
  listening(start(await withStoreOption(['serve', '--port', '0', '--data', folder]), env, command))

const statusOf = async (url: string, key: string): Promise<number> => {
  const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
  await response.arrayBuffer()
  return response.status
}

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

describe('the command line', () => {
  once('--host and --port are those of the server in a command that asks it', async () => {
    for (const command of ['console', 'health', 'route']) {
      const { out } = await run(command, '--help')
      expect([command, out.includes('Port of the server'), out.includes('to listen on')]).toEqual([
        command,
        true,
        false,
      ])
    }
    expect((await run('serve', '--help')).out).toContain('Port to listen on')
  })

  once(
    '--help describes the program and every command',
    async () => {
      const runModules = (...args: string[]): Promise<Ended> => endOf(start(args, {}, MODULES))
      const { code, out } = await runModules('--help')
      expect(code).toBe(0)
      for (const words of [
        'serve',
        'sandbox',
        'keys create',
        'keys list',
        'keys revoke',
        'keys rotate',
        'accounts create',
        'accounts credit',
        'accounts plan',
        'accounts status',
        'quota reset',
        'models',
        'explain',
        'route',
        'config check',
        'config show',
        'config export',
        'store backup',
        'store restore',
        'store status',
        'store migrate',
      ]) {
        expect(out).toContain(words)
        const help = await runModules(...words.split(' '), '--help')
        expect([help.code, help.out.startsWith(`sluice ${words}`)]).toEqual([0, true])
      }
      expect((await runModules()).out).toBe(out)
      expect((await runModules('--version')).out).toMatch(/^\d+\.\d+\.\d+\n$/)
    },
    30_000,
  )

  once.each([
    [['serv'], 'unknown command "serv"; did you mean serve?'],
    [['keys', 'lst'], 'did you mean list?'],
    [['keys'], 'sluice keys requires one of create, list, revoke, rotate'],
    [['serve', '--prot', '1'], 'unknown option --prot; did you mean --port?'],
    [['serve', '-p', '1'], 'unknown option -p'],
    [['serve', '--port'], '--port requires a value'],
    [['serve', '--data', '--port', '0'], '--data requires a value'],
    [['serve', 'now'], 'does not take "now"; see sluice serve --help'],
    [['keys', 'revoke'], 'requires <id or key>'],
    [['keys', 'list', '--json=1'], '--json takes no value'],
    [['keys', 'create', '--kind', 'subscripton'], 'did you mean subscription?'],
    [['keys', 'create', '--expires', '2020-01-01'], '--expires must be'],
    [['keys', 'create', '--requests-per-minute', '0'], 'from 1 to'],
    [['keys', 'create', '--limit', '-1'], '--limit must be from 0 to'],
    [['keys', 'create', '--limit', '0.0000000001'], 'more than 9 decimals'],
    [['keys', 'create', '--limit-period', 'day'], '--limit-period requires --limit'],
    [['keys', 'create', '--limit', '1', '--limit-period', 'dya'], 'did you mean day?'],
    [['keys', 'create', '--models', 'openai/*,a b'], '"a b" must be a model'],
    [['keys', 'rotate', 'x', '--grace', '24'], '--grace must be a duration'],
    [['accounts', 'credit', 'team'], 'requires <name> <usd>'],
    [['accounts', 'credit', 'team', '12,5'], "the amount: '12,5' is not an amount of USD, such as 12.5"],
    [['accounts', 'credit', 'team', '-1e9000'], "the amount: '-1e9000' is not an amount of USD, such as 12.5"],
    [['accounts', 'credit', 'team', '-1000000000.1'], 'the amount must be from -1000000000 to 1000000000 USD'],
    [['accounts', 'create', 'team', '--credit', '1000000001'], '--credit must be from 0 to'],
    [['accounts', 'credit', 'team', '0'], 'must not be 0'],
    [['accounts', 'credit', 'team', '1', '--reference', 'a b'], '--reference must be'],
    [['accounts', 'plan', 'team', 'prro'], 'did you mean pro?'],
    [['accounts', 'create', 'team', '--plan', 'prro'], 'did you mean pro?'],
    [['accounts', 'create', 'team', '--discount', '100.01'], 'a percentage from 0 to 100'],
    [['accounts', 'status', 'team', 'suspnded'], 'did you mean suspended?'],
    [['sandbox', '--port', '65536'], '0 to 65535'],
  ])(
    '%j exits with 2 and one line on stderr',
    async (args, message) => {
      const { code, out, err } = await run(...args)
      expect({ code, out }).toEqual({ code: 2, out: '' })
      expect(err).toContain(message)
      expect(err).toMatch(/^sluice: [^\n]+\n$/)
    },
    15_000,
  )

  once(
    'a failure exits with 1 and one line on stderr',
    async () => {
      const port = await run('serve', '--port', '70000', '--data', newFolder())
      expect({ code: port.code, err: port.err }).toEqual({
        code: 1,
        err: 'sluice: --port: must be a whole number from 0 to 65535\n',
      })
    },
    15_000,
  )

  ofSqlite('folder')(
    'a folder that does not exist is not made by a command that shows it',
    async () => {
      const folder = newFolder()
      expect((await run('keys', 'list', '--data', folder)).err).toBe(
        `sluice: the data folder ${folder} does not exist\n`,
      )
      expect(existsSync(folder)).toBe(false)
    },
    15_000,
  )

  once(
    'config check reports the problems of the file',
    async () => {
      const file = join(scratch, 'bad.yaml')
      await Bun.write(file, 'listen:\n  prot: 1\nmodels: 3\n')
      const bad = await run('config', 'check', '--config', file)
      expect(bad.code).toBe(1)
      expect(
        bad.err
          .trim()
          .split('\n')
          .map((line) => line.startsWith(`sluice: ${file}:`)),
      ).toEqual([true, true])
      await Bun.write(file, 'listen:\n  port: 1\n')
      const good = await run('config', 'check', '--config', file)
      expect([good.code, good.out.includes('is valid: 0 providers, 0 models, 0 keys')]).toEqual([0, true])
      await Bun.write(file, 'listen: { port: 1 }\nkeys: [{ key: sk-ai-v1-the-only-key }]\n')
      const one = await run('config', 'check', '--config', file)
      expect(one.out).toContain('is valid: 0 providers, 0 models, 1 key\n')
      const json = await run('config', 'check', '--json', '--config', file, '--data', scratch)
      expect([json.code, JSON.parse(json.out)]).toEqual([
        0,
        {
          file,
          providers: 0,
          models: 0,
          keys: 1,
          listen: { host: '127.0.0.1', port: 1, proxies: expect.arrayContaining(['127.0.0.0/8']) },
          data: scratch,
          store: null,
        },
      ])
    },
    15_000,
  )

  once(
    'config check shows the database without its password',
    async () => {
      const file = join(scratch, 'postgres.yaml')
      await Bun.write(file, 'store: postgres://sluice:k-3f9a@127.0.0.1:9/sluice?sslpassword=k-3f9a\n')
      const json = await run('config', 'check', '--json', '--config', file)
      expect([json.code, JSON.parse(json.out).store]).toEqual([0, 'postgres://sluice@127.0.0.1:9/sluice'])
      const text = await run('config', 'check', '--config', file)
      expect(text.out).toContain('and postgres://sluice@127.0.0.1:9/sluice')
      const away = await run('keys', 'list', '--config', file, '--data', scratch)
      expect(away.err).toStartWith('sluice: cannot use the database postgres://sluice@127.0.0.1:9/sluice (')
      expect(JSON.stringify([json, text, away])).not.toContain('k-3f9a')
    },
    15_000,
  )

  test('keys are created, listed and revoked', async () => {
    const folder = newFolder()
    const made = JSON.parse(
      (
        await run(
          'keys',
          'create',
          '--json',
          '--kind',
          'management',
          '--name',
          'ops',
          '--expires',
          '30d',
          '--data',
          folder,
        )
      ).out,
    ) as Record<string, string>
    expect(made).toMatchObject({ kind: 'management', account: 'default' })
    const [listed] = JSON.parse((await run('keys', 'list', '--json', '--data', folder)).out) as Record<string, string>[]
    expect(listed).toMatchObject({
      id: made.id!,
      account: 'default',
      name: 'ops',
      revokedAt: null,
      models: null,
      limitUsd: null,
    })
    const days = (Date.parse(listed!.expiresAt!) - Date.now()) / 86_400_000
    expect(days > 29.9 && days <= 30).toBe(true)
    expect((await run('keys', 'revoke', made.text!, '--data', folder)).out).toBe(`revoked ${made.id}\n`)
    const table = await run('keys', 'list', '--data', folder)
    expect(table.out).toMatch(/revoked 2/)
    expect(table.out).not.toContain(made.text!)
  }, 15_000)
})

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

once(
  'the sandbox runs without the gateway',
  async () => {
    const { child } = await listening(start(['sandbox', '--port', '0'], {}, MODULES))
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
  },
  15_000,
)
