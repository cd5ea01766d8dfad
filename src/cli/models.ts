import type { Config } from '../config/load.ts'
import { describe } from '../endpoints/models.ts'
import { closeIdle } from '../http/connection.ts'
import { Prices, type Rate } from '../ledger/prices.ts'
import { usdOf } from '../money.ts'
import { Catalogue } from '../providers/catalogue.ts'
import type { Model } from '../providers/model.ts'
import { LocalModels } from '../providers/local.ts'
import { columns, type Given } from './command.ts'
import { configOf } from './serve.ts'

export async function listModels(given: Given): Promise<void> {
  const config = configOf(given)
  const [catalogue, prices] = [await discoverModels(config), new Prices(config)]
  const wanted = (given.text('find') ?? '').toLowerCase()
  const models = catalogue.list().filter(({ id, name }) => `${id}\n${name}`.toLowerCase().includes(wanted))
  if (given.on('json'))
    return console.log(
      JSON.stringify(
        models.map((model) => describe({ catalogue, prices }, model)),
        null,
        2,
      ),
    )
  if (models.length === 0)
    return console.error(
      `No model of the active providers has ${JSON.stringify(wanted)} in its id or name. Active: ${catalogue
        .providers()
        .map(({ id }) => id)
        .join(', ')}. A provider is switched on by its key in the environment.`,
    )
  const rows = models.map((model) => rowOf(model, prices.of(model.id, catalogue.candidates(model.id))?.rates ?? {}))
  console.log(columns([['MODEL', 'CONTEXT', 'INPUT', 'OUTPUT', 'NAME'], ...rows], ''))
}

/** The catalogue of this configuration, including the models of servers on this machine. */
export async function discoverModels(config: Config): Promise<Catalogue> {
  const catalogue = new Catalogue(config)
  await new LocalModels(catalogue, config.env).refresh(new AbortController().signal)
  closeIdle()
  return catalogue
}

type Rates = Partial<Record<'prompt' | 'completion' | 'image' | 'request', Rate>>

const rowOf = ({ id, name, contextLength }: Model, { prompt, completion, image, request }: Rates): string[] => [
  id,
  contextLength === undefined ? '' : String(contextLength),
  rateText(prompt),
  rateText(completion) || unitText(image, 'image') || unitText(request, 'request'),
  name,
]

/** The price of a model that has none by tokens. */
const unitText = (rate: Rate | undefined, unit: string): string =>
  rate === undefined ? '' : `${rateText(rate)}/${unit}`

const rateText = (rate: Rate | undefined): string =>
  rate === undefined ? '' : `${usdOf(rate.base)}${rate.tiers.length === 0 ? '' : '+'}`
