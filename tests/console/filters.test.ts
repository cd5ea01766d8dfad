import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  FILTER_FIELDS,
  fieldOf,
  filterQuery,
  filterText,
  readFilters,
  toggled,
  withValues,
  writeFilters,
  type Filters,
} from '../../console/parts/filters.ts'

const values = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 20, unit: 'binary' }), {
  minLength: 1,
  maxLength: 4,
})
const anyFilters: fc.Arbitrary<Filters> = fc
  .uniqueArray(fc.constantFrom(...Object.keys(FILTER_FIELDS)))
  .chain((names) =>
    fc
      .tuple(...names.map((name) => (FILTER_FIELDS[name]?.kind === 'choice' ? values : values.map((all) => [all[0]!]))))
      .map((all) => Object.fromEntries(names.map((name, index) => [name, all[index]!]))),
  )

const identity = (value: string): string => value

describe('filters of requests', () => {
  test('what is written into a URL is read from it, and the rest of the URL stays', () => {
    fc.assert(
      fc.property(anyFilters, (filters) => {
        const written = writeFilters(new URLSearchParams('account=acme&model=old&not_key=old'), filters)
        const again = new URLSearchParams(String(written))
        expect(readFilters(again)).toEqual(filters)
        expect(again.get('account')).toBe('acme')
      }),
    )
  })

  test('the question to the API does not depend on the order in which filters were set', () => {
    const one = toggled(toggled({}, 'model', 'a'), 'key', 'k', true)
    const other = toggled(toggled({}, 'key', 'k', true), 'model', 'a')
    expect(filterQuery(one)).toEqual(filterQuery(other))
    expect(filterQuery(one)).toEqual([
      ['model', 'a'],
      ['not_key', 'k'],
    ])
  })

  test('a value is toggled, and asking for it ends leaving it out', () => {
    const excluded = toggled({}, 'model', 'a', true)
    expect(excluded).toEqual({ not_model: ['a'] })
    expect(toggled(excluded, 'model', 'a')).toEqual({ model: ['a'] })
    expect(toggled({ model: ['a', 'b'] }, 'model', 'a')).toEqual({ model: ['b'] })
    expect(toggled({ model: ['a'] }, 'model', 'a')).toEqual({})
    expect(toggled({ min_tokens: ['5'] }, 'min_tokens', '9')).toEqual({ min_tokens: ['9'] })
    expect(toggled({}, 'lossy', 'true', true)).toEqual({ lossy: ['false'] })
    expect(toggled({ lossy: ['false'] }, 'lossy', 'true')).toEqual({ lossy: ['true'] })
    expect(toggled({ lossy: ['true'] }, 'lossy', 'true')).toEqual({})
    expect(withValues({ model: ['a'] }, 'model', [''])).toEqual({})
    expect(fieldOf('not_model')).toEqual({ field: 'model', excludes: true })
  })

  test('repeated and empty values of a URL count once and not at all', () => {
    expect(readFilters(new URLSearchParams('model=a&model=a&model=&q=&min_tokens=1&min_tokens=2&other=x'))).toEqual({
      model: ['a'],
      min_tokens: ['2'],
    })
  })

  test('a filter is said in words', () => {
    expect(filterText('model', ['a', 'b'], identity)).toBe('model: a or b')
    expect(filterText('not_key', ['k1'], () => 'ci')).toBe('not key: ci')
    expect(filterText('outcome', ['a', 'b', 'c', 'd'], identity)).toBe('outcome: a, b and 2 more')
    expect(filterText('lossy', ['true'], identity)).toBe('lost in translation')
    expect(filterText('streamed', ['false'], identity)).toBe('not streamed')
    expect(filterText('min_cost_usd', ['0.5'], identity)).toBe('cost at least 0.5 USD')
  })
})
