import { expect, test } from 'bun:test'
import { readConfig } from '../../src/config/load.ts'
import type { PriceText } from '../../src/config/model-settings.ts'
import { describe as described } from '../../src/endpoints/models.ts'
import { Prices, type PriceFile, type PriceChange } from '../../src/ledger/prices.ts'
import { Catalogue } from '../../src/providers/catalogue.ts'

type Offer = { value: number; unit: string; conditions: { field: string; operator: string; value: string | number }[] }

const config = readConfig('billing: { unpriced: free }', 'sluice.yaml', {})
const catalogue = new Catalogue(config)

function offers(prices: PriceText, schedule?: PriceChange[]): Record<string, Offer[]> {
  const file: PriceFile = {
    source: '',
    imported: '',
    changes: [],
    own: {},
    providers: {
      sandbox: {
        else: [],
        models: [
          { model: 'chat', match: ['chat'], version: '1', prices, ...(schedule === undefined ? {} : { schedule }) },
        ],
      },
    },
  }
  const model = described({ catalogue, prices: new Prices(config, file) }, catalogue.model('sandbox/chat')) as {
    pricings: Record<string, Offer[]>
  }
  return model.pricings
}
const textOf = (list: Offer[] | undefined): string[] =>
  list!.map(
    ({ value, conditions }) =>
      `${value} when ${conditions.map((one) => `${one.field} ${one.operator} ${one.value}`).join(' and ') || 'ever'}`,
  )

test('a price without conditions is listed as it is', () =>
  expect(textOf(offers({ prompt: 1 })['prompt'])).toEqual(['1 when ever']))

test('price tiers by prompt size are listed', () => {
  expect(textOf(offers({ prompt: [1, { over: 10, rate: 2 }, { over: 20, rate: 3 }] })['prompt'])).toEqual([
    '1 when prompt_tokens lte 10',
    '2 when prompt_tokens gt 10 and prompt_tokens lte 20',
    '3 when prompt_tokens gt 20',
  ])
})

test('a price that begins on a day ends the previous price', () => {
  const pricings = offers({ prompt: 1, web_search: 5 }, [
    { from: '2027-01-01', prices: { prompt: [2, { over: 10, rate: 4 }] } },
    { from: '2028-01-01', prices: { prompt: 3 } },
  ])
  expect(textOf(pricings['prompt'])).toEqual([
    '1 when date lt 2027-01-01',
    '2 when prompt_tokens lte 10 and date gte 2027-01-01 and date lt 2028-01-01',
    '4 when prompt_tokens gt 10 and date gte 2027-01-01 and date lt 2028-01-01',
    '3 when date gte 2028-01-01',
  ])
  expect(textOf(pricings['web_search'])).toEqual(['5 when date lt 2027-01-01'])
})

test('a price for some hours leaves the other hours to the price of the day', () => {
  expect(
    textOf(
      offers({ prompt: 1 }, [
        { hours: '01:00-04:00', prices: { prompt: 2 } },
        { hours: '23:30-00:30', prices: { prompt: 3 } },
      ])['prompt'],
    ),
  ).toEqual([
    '1 when time not_in 01:00-04:00 and time not_in 23:30-00:30',
    '2 when time in 01:00-04:00 and time not_in 23:30-00:30',
    '3 when time in 23:30-00:30',
  ])
})

test('hours of some days are listed with the days, and with those excepted', () => {
  const when = { hours: '01:00-04:00', days: 'Mon-Fri' }
  const except = ['2027-01-01', '2027-10-01']
  expect(textOf(offers({ prompt: 1 }, [{ ...when, prices: { prompt: 2 } }])['prompt'])).toEqual([
    '1 when time not_in Mon-Fri 01:00-04:00',
    '2 when time in Mon-Fri 01:00-04:00',
  ])
  expect(textOf(offers({ prompt: 1 }, [{ ...when, except, prices: { prompt: 2 } }])['prompt'])[1]).toBe(
    '2 when time in Mon-Fri 01:00-04:00 except 2027-01-01, 2027-10-01',
  )
})

test('at any moment exactly one listed price applies, and it is the one charged', () => {
  const schedule: PriceChange[] = [
    { from: '2027-01-01', prices: { prompt: 2 } },
    { hours: '22:00-02:00', prices: { prompt: 3 } },
    { hours: '01:00-05:00', prices: { prompt: 4 } },
    { hours: '04:00-08:00', days: 'Mon-Fri', except: ['2027-01-01', '2027-06-01'], prices: { prompt: 5 } },
  ]
  const list = offers({ prompt: 1 }, schedule)['prompt']!
  const file: PriceFile = {
    source: '',
    imported: '',
    changes: [],
    own: {},
    providers: {
      sandbox: {
        else: [],
        models: [{ model: 'chat', match: ['chat'], version: '1', prices: { prompt: 1 }, schedule }],
      },
    },
  }
  const within = (value: string, day: string, time: string): boolean => {
    const [, days, hours = '', except = ''] = /^(\w+-\w+ )?([\d:]+-[\d:]+)(?: except (.*))?$/.exec(value)!
    if (days !== undefined && ([0, 6].includes(new Date(day).getUTCDay()) || except.split(', ').includes(day)))
      return false
    const [start = '', end = ''] = hours.split('-')
    return end < start ? time >= start || time < end : time >= start && time < end
  }
  for (const day of ['2026-12-31', '2027-01-01', '2027-01-02', '2027-05-31', '2027-06-01'])
    for (let hour = 0; hour < 24; hour++) {
      const at = `${day}T${String(hour).padStart(2, '0')}:00:00Z`
      const holding = list.filter(({ conditions }) =>
        conditions.every(({ operator, value }) => {
          if (operator === 'gte') return day >= String(value)
          if (operator === 'lt') return day < String(value)
          return within(String(value), day, at.slice(11, 16)) === (operator === 'in')
        }),
      )
      const charged = new Prices(config, file, () => Date.parse(at)).cost('sandbox', 'chat')!.rates.prompt!.base
      expect([at, holding.map(({ value }) => BigInt(value) * 1_000_000_000n)]).toEqual([at, [charged]])
    }
})
