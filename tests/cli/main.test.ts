import { describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { listening } from './listening.ts'
import { ofSqlite, once } from '../stores.ts'
import { endOf, MODULES, newFolder, run, scratch, start, useScratch, type Ended } from './starting.ts'

useScratch()

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

once(
  'the sandbox runs without the gateway',
  async () => {
    const { child } = await listening(start(['sandbox', '--port', '0'], {}, MODULES))
    child.kill('SIGTERM')
    expect(await child.exited).toBe(0)
  },
  15_000,
)
