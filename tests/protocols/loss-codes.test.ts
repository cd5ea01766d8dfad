import { expect, test } from 'bun:test'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LOSS_CODES } from '../../src/protocols/loss-codes.ts'

/** The documented table of loss codes is generated from the source: `UPDATE=1` writes it. */

const PAGE = join(import.meta.dir, '../../docs/translation.md')
const SOURCE = join(import.meta.dir, '../../src')
const [BEGIN, END] = ['<!-- loss-codes -->\n', '<!-- /loss-codes -->']

const CODES = Object.entries(LOSS_CODES)

test('docs/translation.md has the table of loss codes', () => {
  const page = readFileSync(PAGE, 'utf8')
  const rows = CODES.map(([code, [effect, reason]]) => `| \`${code}\` | ${effect} | ${reason} |\n`)
  const table = `| Code | Effect | Default reason |\n|---|---|---|\n${rows.join('')}`
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  expect(begin).toBeGreaterThan(0)
  expect(end).toBeGreaterThan(begin)
  const updated = page.slice(0, begin + BEGIN.length) + table + page.slice(end)
  if (process.env.UPDATE === '1') writeFileSync(PAGE, updated)
  else expect(page).toBe(updated)
})

test('every loss code is used in the source', () => {
  const sources = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.endsWith('loss-codes.ts'))
    .map((name) => readFileSync(join(SOURCE, name), 'utf8'))
  const isUsed = (code: string): boolean => sources.some((text) => text.includes(`'${code}'`))
  expect(CODES.map(([code]) => code).filter((code) => !isUsed(code))).toEqual([])
})
