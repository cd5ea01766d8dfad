import pricesFile from '../../catalog/prices.json'
import { readConfig } from '../../src/config/load.ts'
import { Prices, type PriceFile } from '../../src/ledger/prices.ts'

/** Prices of the catalogue, as on the day of its import. */

export const FILE = pricesFile as unknown as PriceFile
/** The file has no prices from before its import. */
export const TODAY = Date.parse(`${FILE.imported}T12:00:00Z`)
export const config = (text = '', env: Record<string, string> = {}): ReturnType<typeof readConfig> =>
  readConfig(text, 'sluice.yaml', env)
export const catalogued = (now = TODAY): Prices => new Prices(config(), FILE, () => now)
