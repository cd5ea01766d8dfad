/**
 * Updates the imported models of catalog/models.json from @pydantic/genai-prices: `npm run models`, or
 * `npm run models -- --force` to accept that many models disappeared or that contexts changed much. A refused import
 * leaves the file unchanged; manual entries are never changed.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findProvider, type MatchLogic, type ModelInfo, type Provider } from '@pydantic/genai-prices'
import { modelNameProblem } from '../src/config/model-settings.ts'
import { readConfig } from '../src/config/load.ts'
import { Prices } from '../src/ledger/prices.ts'
import { lineOf } from './prices.ts'
import { globs, type ImportedModels, type ImportedRow } from '../src/providers/catalog-rows.ts'

/** Our provider ids -> the source's, with the names to import. Not Azure, whose model names are the operator's. */
const PROVIDERS: Record<string, { source: string; only?: string[]; not?: string[] }> = {
  // Names with colons and images are other vendors' variants; instruct, ada and similar use the API before chat.
  openai: {
    source: 'openai',
    not: [
      '*:*',
      '*-instruct*',
      'ada',
      'babbage',
      'curie',
      'davinci',
      'text-*',
      'gpt-5*-image*',
      '*.ft-*',
      'computer-use',
      'gpt-3.5-0301',
    ],
  },
  anthropic: { source: 'anthropic', not: ['claude-2*', 'claude-v1*'] },
  google: { source: 'google', only: ['gemini-*', 'gemma-*'], not: ['*-maas', 'gemini-flash-*', 'gemini-pro-*'] },
  vertex: { source: 'google', only: ['gemini-*'], not: ['gemini-flash-*', 'gemini-pro-*'] },
  // Names without an author are from an older list.
  openrouter: { source: 'openrouter', only: ['*/*'] },
  deepseek: { source: 'deepseek' },
  mistral: { source: 'mistral', not: ['*:*'] },
  xai: { source: 'x-ai' },
  groq: { source: 'groq' },
  together: { source: 'together' },
  fireworks: { source: 'fireworks' },
}

/** Names of models without conversations: embeddings, moderation, batches, speech, music, OCR and image APIs. */
const NOT_CONVERSATIONAL = globs([
  '*embed*',
  '*moderation*',
  '*guard*',
  '*content-safety*',
  '*:batch',
  '*-tts',
  '*-tts-*',
  '*transcribe*',
  '*whisper*',
  '*realtime*',
  '*-live*',
  '*native-audio*',
  '*-voice*',
  '*-ocr*',
  '*lyria*',
  'gpt-image*',
])

const CONTEXT = { min: 256, max: 100_000_000 }
/** A context that changes by more than this factor is taken for an error of the source. */
const MAX_FACTOR = 8
/** So is the loss of a larger part of a provider's models than this, if they are more than a few. */
const MAX_LOST_PART = 0.2
const FEW = 3
const CHANGES_KEPT = 20
const CHANGE_LINES = 100

export class Refused extends Error {}

type Import = { imported: ImportedModels; changed: string[]; differing: string[] }
type File = { models: { id: string; contextLength?: number }[]; imported: ImportedModels }

/**
 * The source's models, and the changes. `priced`: true if a provider's model has a price. `today`: YYYY-MM-DD. Throws
 * Refused with every reason.
 */
export function importModels(
  sources: Record<string, Provider>,
  file: File,
  options: { source: string; today: string; force: boolean; priced: (provider: string, model: string) => boolean },
): Import {
  const wrong: string[] = []
  const rows = Object.entries(PROVIDERS).flatMap(([id, named]) => {
    const found = rowsOf(id, named, sources[named.source]?.models ?? [], options.priced, wrong)
    if (found.length === 0) wrong.push(`${id}: the source has no conversational models of ${named.source}`)
    return found
  })
  const { changed, risky } = difference(file.imported.models, rows)
  if (wrong.length > 0) throw new Refused(wrong.join('\n'))
  if (risky.length > 0 && !options.force)
    throw new Refused(`${risky.join('\n')}\nTo accept this: npm run models -- --force`)
  const { today, source } = options
  const changes =
    changed.length === 0
      ? file.imported.changes
      : [{ imported: today, source, changed: shortened(changed) }, ...file.imported.changes].slice(0, CHANGES_KEPT)
  const imported = { source, imported: changed.length === 0 ? file.imported.imported : today, changes, models: rows }
  return { imported, changed, differing: differing(file.models, rows) }
}

const shortened = (lines: string[]): string[] =>
  lines.length <= CHANGE_LINES ? lines : [...lines.slice(0, CHANGE_LINES), `and ${lines.length - CHANGE_LINES} more`]

function rowsOf(
  provider: string,
  { only = ['*'], not = [] }: { only?: string[]; not?: string[] },
  models: ModelInfo[],
  priced: (provider: string, model: string) => boolean,
  wrong: string[],
): ImportedRow[] {
  const [within, without] = [globs(only), globs(not)]
  const rows = new Map<string, ImportedRow>()
  for (const model of models) {
    if (model.deprecated === true || !isConversational(model)) continue
    const name = [model.id, ...exactNames(model.match)].find(
      (one) =>
        within.test(one) &&
        !without.test(one) &&
        !NOT_CONVERSATIONAL.test(one) &&
        modelNameProblem(`${provider}/${one}`) === undefined &&
        priced(provider, one),
    )
    if (name === undefined) continue
    const context = model.context_window
    if (context !== undefined && !(Number.isInteger(context) && context >= CONTEXT.min && context <= CONTEXT.max))
      wrong.push(`${provider}/${name}: ${context} tokens are not a valid context`)
    rows.set(name, {
      id: `${provider}/${name}`,
      ...(model.name === undefined ? {} : { name: model.name }),
      ...(context === undefined ? {} : { contextLength: context }),
    })
  }
  return [...rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

/** True unless prices show that a model is not conversational: no price of output, prices per hour or page, video. */
function isConversational({ prices }: ModelInfo): boolean {
  const units = Object.keys(Array.isArray(prices) ? prices[0]!.prices : prices)
  return (
    units.length === 0 ||
    (units.includes('output_mtok') && !units.some((unit) => /hours|kpages|output_video/.test(unit)))
  )
}

/** Names that a rule of the source matches exactly. */
function exactNames(rule: MatchLogic): string[] {
  if ('equals' in rule) return [rule.equals]
  return 'or' in rule ? rule.or.flatMap(exactNames) : []
}

/** The changes, one per line, and those that must be reviewed. */
function difference(before: ImportedRow[], after: ImportedRow[]): { changed: string[]; risky: string[] } {
  const changed: string[] = []
  const risky: string[] = []
  const old = new Map(before.map((row) => [row.id, row]))
  const fresh = Object.keys(PROVIDERS).filter((provider) => countOf(provider, before) === 0)
  changed.push(...fresh.map((provider) => `${provider}: ${countOf(provider, after)} models, all new`))
  for (const row of after) {
    const was = old.get(row.id)
    old.delete(row.id)
    if (was === undefined) changed.push(...(fresh.some((provider) => isOf(provider, row)) ? [] : [`${row.id}: new`]))
    else if (was.contextLength !== row.contextLength) {
      changed.push(`${row.id}: context ${was.contextLength ?? 'unknown'} -> ${row.contextLength ?? 'unknown'}`)
      const times = (row.contextLength ?? NaN) / (was.contextLength ?? NaN)
      if (times > MAX_FACTOR || times < 1 / MAX_FACTOR)
        risky.push(
          `${row.id}: context changed by a factor above ${MAX_FACTOR}: ${was.contextLength} -> ${row.contextLength}`,
        )
    } else if (was.name !== row.name)
      changed.push(`${row.id}: called ${row.name ?? 'nothing'} instead of ${was.name ?? 'nothing'}`)
  }
  changed.push(...[...old.keys()].map((id) => `${id}: gone`))
  for (const provider of Object.keys(PROVIDERS)) {
    const [lost, had] = [countOf(provider, old.values()), countOf(provider, before)]
    if (lost > FEW && lost > had * MAX_LOST_PART) risky.push(`${provider} has lost ${lost} of its ${had} models`)
  }
  return { changed, risky }
}

const isOf = (provider: string, { id }: ImportedRow): boolean => id.startsWith(`${provider}/`)
const countOf = (provider: string, rows: Iterable<ImportedRow>): number =>
  [...rows].filter((row) => isOf(provider, row)).length

/** Manual contexts that differ from the source's, to be reviewed. */
function differing(byHand: File['models'], rows: ImportedRow[]): string[] {
  const theirs = new Map(rows.map(({ id, contextLength }) => [id, contextLength]))
  return byHand.flatMap(({ id, contextLength }) => {
    const other = theirs.get(id)
    return other === undefined || contextLength === undefined || other === contextLength
      ? []
      : [`${id}: context ${contextLength} by hand, ${other} in the source`]
  })
}

/** The file's text with a new import, one line per model; every other character is unchanged. */
export function withImport(text: string, imported: ImportedModels): string {
  const start = text.indexOf(SECTION)
  const end = text.indexOf('\n  }', start) + '\n  }'.length
  if (start < 0 || end < start) throw new Error('catalog/models.json has no section "imported" in the expected format')
  const changes = JSON.stringify(imported.changes, null, 2).replaceAll('\n', '\n    ')
  const rows = imported.models.map((row) => `      ${lineOf(row)}`).join(',\n')
  const section = `${SECTION}
    "source": ${JSON.stringify(imported.source)},
    "imported": ${JSON.stringify(imported.imported)},
    "changes": ${changes},
    "models": [
${rows}
    ]
  }`
  return text.slice(0, start) + section + text.slice(end)
}

const SECTION = '\n  "imported": {'

function main(args: string[]): void {
  const path = join(import.meta.dir, '../catalog/models.json')
  const { version } = JSON.parse(
    readFileSync(join(import.meta.dir, '../node_modules/@pydantic/genai-prices/package.json'), 'utf8'),
  ) as { version: string }
  const sources = Object.fromEntries(
    Object.values(PROVIDERS).flatMap(({ source }) => {
      const found = findProvider({ providerId: source })
      return found === undefined ? [] : [[source, found]]
    }),
  )
  const prices = new Prices(readConfig('', 'none', {}))
  const text = readFileSync(path, 'utf8')
  const { imported, changed, differing } = importModels(sources, JSON.parse(text) as File, {
    source: `@pydantic/genai-prices ${version}`,
    today: new Date().toISOString().slice(0, 10),
    force: args.includes('--force'),
    priced: (provider, model) => prices.cost(provider, model) !== undefined,
  })
  // Renamed, so that an interruption leaves the previous file.
  writeFileSync(`${path}.new`, withImport(text, imported))
  renameSync(`${path}.new`, path)
  console.log(changed.length === 0 ? 'No model has changed.' : changed.join('\n'))
  if (differing.length > 0) console.log(`Manual entries that differ, unchanged:\n${differing.join('\n')}`)
}

if (import.meta.main) {
  try {
    main(process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    console.error(`The models were not imported; catalog/models.json is unchanged.\n${error.message}`)
    process.exitCode = 1
  }
}
