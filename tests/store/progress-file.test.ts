import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ProgressFile } from '../../src/store/sqlite/progress-file.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-progress-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** The last text as another process reads it. */
const stored = (): string | undefined => new ProgressFile(folder).read()

test('the last text is read, also where it is shorter than those before it', () => {
  expect(stored()).toBeUndefined()
  const file = new ProgressFile(folder)
  for (const text of ['a long first text', 'a long second text', 'ü', '']) {
    file.write(text)
    expect(stored()).toBe(text)
  }
  file.close()
})

test('another process goes on after the texts of the one before', () => {
  for (const text of ['one', 'two', 'three']) {
    const file = new ProgressFile(folder)
    file.write(text)
    file.close()
    expect(stored()).toBe(text)
  }
})

test('the text before is read where the last one was not written whole', () => {
  const file = new ProgressFile(folder)
  file.write('before')
  file.write('last')
  file.close()
  const broken = ['progress.0', 'progress.1'].find((name) => readFileSync(join(folder, name), 'utf8').endsWith('last'))!
  const text = readFileSync(join(folder, broken), 'utf8')
  for (let length = 0; length < text.length; length++) {
    writeFileSync(join(folder, broken), text.slice(0, length))
    expect(stored()).toBe('before')
  }
})

test('its files can be read by their user only', () => {
  const file = new ProgressFile(folder)
  file.write('one')
  file.close()
  expect(statSync(join(folder, 'progress.0')).mode & 0o777).toBe(0o600)
})
