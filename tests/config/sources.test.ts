import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { ConfigError, loadConfig } from '../../src/config/load.ts'

describe('sources', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-config-'))
  const file = join(folder, 'a.yaml')
  writeFileSync(file, 'listen: { host: 10.0.0.1, port: 1 }\ndata: from-file\n')
  const fail = (options: Parameters<typeof loadConfig>[0], env: Record<string, string> = {}): string => {
    try {
      loadConfig(options, env)
    } catch (error) {
      if (error instanceof ConfigError) return error.message
      throw error
    }
    return 'loads'
  }

  test('the metrics have another port than the API, whatever set that', () => {
    const withMetrics = join(folder, 'metrics.yaml')
    const write = (text: string): void => writeFileSync(withMetrics, `metrics: { port: 9464 }\n${text}`)
    const problem = (taken: string): string => `metrics.port: the port of the API is ${taken}; choose another one`
    write('listen: { port: 9464 }\n')
    expect(fail({ file: withMetrics })).toBe(problem('9464, too'))
    expect(fail({ file: withMetrics, port: '9465' })).toBe('loads')
    write('store: postgres://a@h/b\nworkers: 4\nlisten: { port: 80 }\n')
    expect(fail({ file: withMetrics })).toBe('loads')
    expect(fail({ file: withMetrics, port: '9467' })).toBe(problem('9467, one of those of the 4 workers'))
    expect(fail({ file: withMetrics, port: '9468' })).toBe('loads')
  })

  test('an option overrides a variable, a variable the file, and the file a default', () => {
    const env = { SLUICE_CONFIG: file, SLUICE_HOST: '10.0.0.2', SLUICE_PORT: '2', SLUICE_DATA: 'from-env' }
    expect(loadConfig({ host: '10.0.0.3', port: '3', data: 'from-option' }, env)).toMatchObject({
      listen: { host: '10.0.0.3', port: 3 },
      data: resolve('from-option'),
      file,
    })
    expect(loadConfig({}, env)).toMatchObject({ listen: { host: '10.0.0.2', port: 2 }, data: resolve('from-env') })
    expect(loadConfig({ file }, { SLUICE_CONFIG: '/nowhere', SLUICE_HOST: '' })).toMatchObject({
      listen: { host: '10.0.0.1', port: 1 },
      data: resolve('from-file'),
    })
  })

  test('an invalid option, variable or file is named in the error', () => {
    expect(fail({ port: '65536' })).toBe('--port: must be a whole number from 0 to 65535')
    expect(fail({ port: '-1' })).toBe('--port: must be a whole number from 0 to 65535')
    expect(fail({}, { SLUICE_PORT: 'x' })).toBe('SLUICE_PORT: must be a whole number from 0 to 65535')
    expect(fail({ data: '' })).toBe('--data: must not be empty')
    expect(fail({ file: join(folder, 'none.yaml') })).toBe(
      `${join(folder, 'none.yaml')}: cannot be read: there is no such file`,
    )
    expect(fail({ file: folder })).toBe(`${folder}: must be a file`)
    writeFileSync(join(folder, 'big.yaml'), `#${'x'.repeat(1024 * 1024)}`)
    expect(fail({ file: join(folder, 'big.yaml') })).toContain('must be at most 1 MiB')
    writeFileSync(join(folder, 'latin1.yaml'), Buffer.from([0x64, 0xe4]))
    expect(fail({ file: join(folder, 'latin1.yaml') })).toContain('must be UTF-8 text')
    rmSync(folder, { recursive: true })
  })
})
