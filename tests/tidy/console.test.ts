import { describe, expect, test } from 'bun:test'
import { dirname, join, normalize } from 'node:path'
import { consoleCode, read, source } from './sources.ts'

describe('the console', () => {
  /** Files whose lines match, as `file:line`. */
  const linesWith = (pattern: RegExp): string[] =>
    consoleCode.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, index) => (pattern.test(line) ? [`${file}:${index + 1}`] : [])),
    )

  test('it writes no markup, and stores nothing in the browser but scheme and time zone', () => {
    expect(consoleCode.length).toBeGreaterThan(10)
    expect(linesWith(/dangerouslySetInnerHTML|\.(?:inner|outer)HTML|insertAdjacentHTML|document\.write/)).toEqual([])
    const stored = linesWith(/\b(?:localStorage|sessionStorage|indexedDB|document\.cookie)\b/)
    expect(stored.filter((line) => !line.startsWith('console/parts/when.tsx:'))).toEqual([])
  })

  test('amounts of money are no floating-point numbers, except as heights in charts', () => {
    const numbers = linesWith(/(?:Number|parseFloat)\([^)]*usd|_usd\)? *[-+*/] /i)
    expect(numbers.filter((line) => !line.startsWith('console/parts/money.ts:'))).toEqual([])
  })

  test('the gateway takes nothing from it, and it takes types from the gateway, and exact amounts', () => {
    const targets = source.flatMap((file) =>
      [...read(file).matchAll(/from '(\.[^']+)'/g)].map(([, path = '']) => normalize(join(dirname(file), path))),
    )
    expect(targets.filter((path) => path.startsWith('console/'))).toEqual([])
    const values = linesWith(/from '(?:\.\.\/)+src\/(?!money\.ts)/).filter((at) => {
      const [file = '', line] = at.split(':')
      return !/^import type /.test(read(file).split('\n')[Number(line) - 1] ?? '')
    })
    expect(values).toEqual([])
  })
})
