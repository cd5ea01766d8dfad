import { describe, expect, test } from 'bun:test'
import { code, consoleCode, expectOnly, list, read, source, withoutComments, written } from './sources.ts'

/** Exports that nothing uses yet, `file name`. */
const EXPORT_DEBT: readonly string[] = []
/** Provider ids in code, `file id`. */
const PROVIDER_DEBT: readonly string[] = []
/** Words of the former vocabulary, and the terms used now; CONTRIBUTING.md explains them. */
const GLOSSARY: Readonly<Record<string, string>> = {
  abilities: 'capabilities',
  bare: 'unsigned, unprefixed or raw',
  film: 'video',
  foreign: 'native',
  forgive: 'void',
  hear: 'record',
  heard: 'recorded or received',
  keeper: 'response store',
  landscape: 'image',
  maker: 'issuer',
  mend: 'transform',
  purse: 'wallet',
  recall: 'restore',
  rooms: 'modules or services',
  seal: 'signature envelope',
  spine: 'context',
  tell: 'report',
  told: 'reported',
  underway: 'in flight',
  unseal: 'unwrap',
  wish: 'requested option',
  wishes: 'requested options',
}
/** Uses of a member of stored JSON, which databases of earlier versions contain. */
const STORED_NAMES = [
  'src/ledger/open-generation.ts heard:',
  'tests/gateway/endings-shutdown.test.ts heard:',
  'tests/ledger/settlement.test.ts heard:',
]

const tests = list('tests/**/*.ts').filter((file) => file !== 'tests/tidy/names.test.ts')

describe('names and texts', () => {
  test('provider ids appear in catalog/ only', () => {
    const ids = Object.keys(idsOf(JSON.parse(read('catalog/providers.json')))).filter((id) => id !== 'sandbox')
    expect(ids.length).toBeGreaterThan(3)
    const found = source
      .filter((file) => !file.startsWith('src/providers/sandbox/'))
      .flatMap((file) => {
        const text = withoutComments(read(file))
        return ids
          .filter((id) => text.includes(`'${id}'`) || text.includes(`"${id}"`) || text.includes(`\`${id}\``))
          .map((id) => `${file} ${id}`)
      })
    expectOnly(PROVIDER_DEBT, found, 'a provider id in code; make it a flag of catalog/providers.json')
  })

  test('no file is a grab-bag', () => {
    const grabBags = code.filter((file) =>
      /(^|\/)(utils?|helpers?|common|types|misc|core|services?|handlers?|managers?)(\.ts|\.mjs|\/)/.test(file),
    )
    expect(grabBags.map((file) => `${file}: name it after its content`)).toEqual([])
  })

  test('no comment begins with a fragment', () => {
    const fragment = /(?:\/\*\*|^\s*\/\/) (What|Whether|How|Of|Which) /
    expect(
      [...code, ...tests].flatMap((file) =>
        read(file)
          .split('\n')
          .flatMap((line, index, lines) => {
            const first = /^\s*\/\*\*$/.test(lines[index - 1] ?? '') ? line.replace(/^\s*\*/, '/**') : line
            return fragment.test(first) ? [`${file}:${index + 1}: write a noun phrase or a sentence`] : []
          }),
      ),
    ).toEqual([])
  })

  test.each(Object.entries(GLOSSARY))('the word %s is not used in identifiers: the glossary says %s', (word, term) => {
    const found = identifiers()
      .filter(({ words }) => words.includes(word))
      .map(({ file, name }) => `${file} ${name}: say ${term}`)
    expect(found.filter((one) => !STORED_NAMES.some((name) => one.startsWith(name)))).toEqual([])
  })

  test('every export is used by another file', () => {
    const users = new Map<string, number>()
    for (const file of [...code, ...list('tests/**/*.ts')].filter((one) => !one.startsWith('tests/tidy/')))
      for (const word of new Set(read(file).match(/[\w$]+/g))) users.set(word, (users.get(word) ?? 0) + 1)
    const unused = [...source, ...consoleCode].flatMap((file) =>
      [...read(file).matchAll(/^export (?:async )?(?:const|function\*?|(?:abstract )?class|let|type) ([\w$]+)/gm)]
        .map(([, name = '']) => name)
        .filter((name) => users.get(name)! < 2)
        .map((name) => `${file} ${name}`),
    )
    expectOnly(EXPORT_DEBT, unused, 'exported and used nowhere else')
  })

  test('every open task names its decision record', () => {
    const open = written.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, index) =>
          /\b(TODO|FIXME|XXX|HACK)\b(?!\(\d{4}\))/.test(line)
            ? [`${file}:${index + 1}: write TODO(0007) with the number of a page in docs/decisions/`]
            : [],
        ),
    )
    expect(open).toEqual([])
  })

  test('no text names a person, a machine or an issue', () => {
    const outside = /\/(?:home|root|Users)\/|\b[Cc]o-[Aa]uthored-[Bb]y\b|(?:^|[\s(])#\d{2,5}\b(?![\da-fA-F])/
    const found = written.flatMap((file) =>
      read(file)
        .split('\n')
        .flatMap((line, index) => (outside.test(line) ? [`${file}:${index + 1}: ${outside.exec(line)?.[0]}`] : [])),
    )
    expect(found).toEqual([])
  })

  test('modules have no default exports and imports name the file with its extension', () => {
    const found = source.flatMap((file) => {
      const text = read(file)
      return [
        ...(/^export default\b/m.test(text) ? [`${file}: a default export`] : []),
        ...(/from '\.[^']*(?<!\.ts|\.json)'/.test(text) ? [`${file}: an import without its file's extension`] : []),
      ]
    })
    expect(found).toEqual([])
  })
})

/** The catalogue's rows by id, whether it is a list or a map. */
function idsOf(catalogue: unknown): Record<string, unknown> {
  if (Array.isArray(catalogue)) return Object.fromEntries((catalogue as { id: string }[]).map((row) => [row.id, row]))
  const { providers } = catalogue as { providers?: unknown }
  return providers === undefined ? (catalogue as Record<string, unknown>) : idsOf(providers)
}

const identifiersIn = (text: string): string[] =>
  withoutComments(text)
    .replace(/'(?:[^'\\\n]|\\.)*'/g, '')
    .replace(/`(?:[^`\\]|\\.)*`/g, (template) => (template.match(/(?<=\$\{)[^}]*/g) ?? []).join(' '))
    .replace(/ \/\/ .*$/gm, '')
    .match(/(?<![\w$])[A-Za-z_$][\w$]*/g) ?? []

/** The identifiers in code and tests, found once for all words. */
const identifiers = (): readonly Identifier[] => (identifiersOfCode ??= [...code, ...tests].flatMap(identifiersOf))
let identifiersOfCode: readonly Identifier[] | undefined

type Identifier = { file: string; name: string; words: string[] }

const identifiersOf = (file: string): Identifier[] =>
  [...new Set(identifiersIn(read(file)))].map((name) => ({ file, name, words: wordsOf(name) }))

/** `resolveMediaURL` -> resolve, media, url. */
const wordsOf = (name: string): string[] => name.split(/[_$\d]+|(?<=[a-z])(?=[A-Z])/).map((word) => word.toLowerCase())
