/**
 * Brings the imported models of catalog/models.json up to date from @pydantic/genai-prices: `npm run models`, or
 * `npm run models -- --force` to accept that many vanished or that contexts moved far. What is refused leaves the file
 * as it is;
 * what stands in the file by hand is never touched.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findProvider, type MatchLogic, type ModelInfo, type Provider } from '@pydantic/genai-prices'
import { modelNameProblem } from '../src/config/model-settings.ts'
import { readConfig } from '../src/config/load.ts'
import { Prices } from '../src/ledger/prices.ts'
import { lineOf } from './prices.ts'
import { globs, type ImportedModels, type ImportedRow } from '../src/providers/catalog-rows.ts'

/**
 * Our providers -> the source's, and which of its names they answer to. Azure is left out: its names are the operator's
 * own.
 */
const PROVIDERS: Record<string, { source: string; only?: string[]; not?: string[] }> = {
  // Colons and images are other sellers' variants; instruct, ada and the like are asked by an API that is older than
  // chat.
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
  // Names without an author are of an older list.
  openrouter: { source: 'openrouter', only: ['*/*'] },
  deepseek: { source: 'deepseek' },
  mistral: { source: 'mistral', not: ['*:*'] },
  xai: { source: 'x-ai' },
  groq: { source: 'groq' },
  together: { source: 'together' },
  fireworks: { source: 'fireworks' },
}

/**
 * Names of what answers no conversation: embeddings, moderation, batches, speech, music, pages, and pictures from an
 * API of their own.
 */
const NO_CONVERSATION = globs([
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
/** A context that moves by more than this many times is taken for a mistake of the source. */
const FARTHEST = 8
/** A provider that loses a larger part of its models than this, and more than a few, too. */
const MOST_LOST = 0.2
const FEW = 3
const CHANGES_KEPT = 20
const CHANGE_LINES = 100

export class Refused extends Error {}

type Import = { imported: ImportedModels; changed: string[]; differing: string[] }
type File = { models: { id: string; contextLength?: number }[]; imported: ImportedModels }

/**
 * The source's models, and what changed. `priced`: whether a provider's model has a price. `today`: YYYY-MM-DD. Throws
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
    throw new Refused(`${risky.join('\n')}\nIf that is right: npm run models -- --force`)
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
    if (model.deprecated === true || !converses(model)) continue
    const name = [model.id, ...exactNames(model.match)].find(
      (one) =>
        within.test(one) &&
        !without.test(one) &&
        !NO_CONVERSATION.test(one) &&
        modelNameProblem(`${provider}/${one}`) === undefined &&
        priced(provider, one),
    )
    if (name === undefined) continue
    const context = model.context_window
    if (context !== undefined && !(Number.isInteger(context) && context >= CONTEXT.min && context <= CONTEXT.max))
      wrong.push(`${provider}/${name}: ${context} tokens are no context`)
    rows.set(name, {
      id: `${provider}/${name}`,
      ...(model.name === undefined ? {} : { name: model.name }),
      ...(context === undefined ? {} : { contextLength: context }),
    })
  }
  return [...rows.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
}

/**
 * Tokens cost something on their way out, or nothing costs anything; what is paid by the hour or the page is no
 * conversation, nor is video.
 */
function converses({ prices }: ModelInfo): boolean {
  const units = Object.keys(Array.isArray(prices) ? prices[0]!.prices : prices)
  return (
    units.length === 0 ||
    (units.includes('output_mtok') && !units.some((unit) => /hours|kpages|output_video/.test(unit)))
  )
}

/** Names that a rule of the source takes as they stand. */
function exactNames(rule: MatchLogic): string[] {
  if ('equals' in rule) return [rule.equals]
  return 'or' in rule ? rule.or.flatMap(exactNames) : []
}

/** What changed, a line each, and which of that nobody should take unseen. */
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
      if (times > FARTHEST || times < 1 / FARTHEST)
        risky.push(
          `${row.id}: its context moved by more than ${FARTHEST} times: ${was.contextLength} -> ${row.contextLength}`,
        )
    } else if (was.name !== row.name)
      changed.push(`${row.id}: called ${row.name ?? 'nothing'} instead of ${was.name ?? 'nothing'}`)
  }
  changed.push(...[...old.keys()].map((id) => `${id}: gone`))
  for (const provider of Object.keys(PROVIDERS)) {
    const [lost, had] = [countOf(provider, old.values()), countOf(provider, before)]
    if (lost > FEW && lost > had * MOST_LOST) risky.push(`${provider} has lost ${lost} of its ${had} models`)
  }
  return { changed, risky }
}

const isOf = (provider: string, { id }: ImportedRow): boolean => id.startsWith(`${provider}/`)
const countOf = (provider: string, rows: Iterable<ImportedRow>): number =>
  [...rows].filter((row) => isOf(provider, row)).length

/** Where a context that was written by hand is not the source's: for somebody to look at. */
function differing(byHand: File['models'], rows: ImportedRow[]): string[] {
  const theirs = new Map(rows.map(({ id, contextLength }) => [id, contextLength]))
  return byHand.flatMap(({ id, contextLength }) => {
    const other = theirs.get(id)
    return other === undefined || contextLength === undefined || other === contextLength
      ? []
      : [`${id}: context ${contextLength} by hand, ${other} in the source`]
  })
}

/** The file's text with another import in it: one line a model, and every other character as it was. */
export function withImport(text: string, imported: ImportedModels): string {
  const start = text.indexOf(SECTION)
  const end = text.indexOf('\n  }', start) + '\n  }'.length
  if (start < 0 || end < start) throw new Error('catalog/models.json has no section "imported" at its usual place')
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
  // Renamed into place, so that a stop in the middle leaves the last good file.
  writeFileSync(`${path}.new`, withImport(text, imported))
  renameSync(`${path}.new`, path)
  console.log(changed.length === 0 ? 'No model has changed.' : changed.join('\n'))
  if (differing.length > 0) console.log(`By hand it is otherwise, and stays so:\n${differing.join('\n')}`)
}

if (import.meta.main) {
  try {
    main(process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    console.error(`The models are not imported; catalog/models.json stays as it was.\n${error.message}`)
    process.exitCode = 1
  }
}
