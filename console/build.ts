/**
 * Builds the console into `dist`: `bun console/build.ts`. The same sources give the same bytes.
 *
 * Bun's bundler gets the scripts alone. It would turn fonts into `data:` URLs, which the console's policy refuses, make
 * Mantine's sheet larger, and lower `light-dark()`, so sheets and fonts are copied.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'

const here = import.meta.dir
const packages = join(here, 'node_modules')
/** The path at which the server serves `dist/assets`. */
const SERVED = '/console/assets/'
const SOURCES = new Bun.Glob('{app,api,pages,parts,snippets,styles}/**/*.{ts,tsx,css,js,svg}')
const SINGLE_SOURCES = ['build.ts', 'index.html', 'reference.html', 'package-lock.json', 'tsconfig.json']
const FONTS: readonly { family: string; file: string }[] = [
  { family: 'Inter', file: '@fontsource-variable/inter/files/inter-latin-wght-normal.woff2' },
  {
    family: 'JetBrains Mono',
    file: '@fontsource-variable/jetbrains-mono/files/jetbrains-mono-latin-wght-normal.woff2',
  },
]
/** Components of Mantine that the console has none of: their rules are left out of its sheet. */
const UNUSED: readonly string[] = [
  ...['Accordion', 'ActionBar', 'Affix', 'AngleSlider', 'AppShell', 'AspectRatio', 'Avatar', 'BackgroundImage'],
  ...['Blockquote', 'Breadcrumbs', 'Burger', 'Card', 'Cascader', 'Chip', 'ColorInput', 'ColorPicker', 'ColorSwatch'],
  ...['Code', 'Container', 'DataList', 'Dialog', 'EmptyState', 'Fieldset', 'FloatingWindow', 'Grid', 'Image'],
  ...['Indicator', 'Kbd', 'List', 'Mark', 'Marquee', 'Menubar', 'NavLink', 'OverflowList', 'Pagination', 'PinInput'],
  ...['Rating', 'RingProgress', 'RollingNumber', 'Scroller', 'SemiCircleProgress', 'SimpleGrid', 'Slider'],
  ...['Spoiler', 'Splitter', 'Stepper', 'Table', 'TableOfContents', 'ThemeIcon', 'Timeline', 'Toolbar', 'Tour', 'Tree'],
  ...['TreeSelect', 'Typography'],
]

/** Sheets in the order of the page's head. The last one overrides the others. */
const SHEETS: readonly (readonly [name: string, files: readonly string[]])[] = [
  [
    'mantine.css',
    ['@mantine/core/styles.css', '@mantine/notifications/styles.css', '@mantine/spotlight/styles.css'].map((file) =>
      join(packages, file),
    ),
  ],
  ['console.css', [join(packages, 'uplot/dist/uPlot.min.css'), ...glob('styles/*.css')]],
]

function glob(pattern: string): string[] {
  return [...new Bun.Glob(pattern).scanSync({ cwd: here, absolute: true })].sort()
}

/** Digest of everything that the build reads: `dist` is as its sources if it was made with the same key. */
function keyOfSources(): string {
  const hash = createHash('sha256')
  const files = [...SINGLE_SOURCES, ...SOURCES.scanSync({ cwd: here })].sort()
  for (const file of files) hash.update(`${file.replaceAll('\\', '/')}\0`).update(readFileSync(join(here, file)))
  return hash.digest('hex').slice(0, 32)
}

/** The key of the sources that `folder` was built from. */
function keyOfBuild(folder: string): string | undefined {
  const file = join(folder, 'build.json')
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { key: string }).key : undefined
}

/** The files of one build in the order of their names, each with compressed ones beside it. */
class Assets {
  readonly #files: string[] = []
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
    mkdirSync(join(folder, 'assets'), { recursive: true })
  }

  /** Writes an asset under a name with its digest, and returns the path at which it is served. */
  add(name: string, content: string | Uint8Array): string {
    const dot = name.lastIndexOf('.')
    const digest = createHash('sha256').update(content).digest('hex').slice(0, 8)
    return this.addAs(`${name.slice(0, dot)}-${digest}${name.slice(dot)}`, content)
  }

  addAs(name: string, content: string | Uint8Array): string {
    const bytes = Buffer.from(content as Uint8Array)
    const path = join(this.#folder, 'assets', name)
    writeFileSync(path, bytes)
    this.#files.push(name)
    if (name.endsWith('.woff2')) return SERVED + name
    writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }))
    const params = { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
    writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }))
    return SERVED + name
  }

  get files(): readonly string[] {
    return [...new Set(this.#files)].sort()
  }
}

/** Mantine's sheet without the rules of unused components, otherwise as it is. */
function usedRules(sheet: string): string {
  const sources = [...SOURCES.scanSync({ cwd: here })].filter((file) => file.endsWith('.tsx'))
  const imports = sources
    .flatMap((file) => [
      ...readFileSync(join(here, file), 'utf8').matchAll(/import \{([^}]*)\} from '@mantine\/core'/g),
    ])
    .flatMap(([, names = '']) => names.split(',').map((name) => name.trim()))
  return UNUSED.reduce((rest, name) => {
    if (imports.includes(name)) throw new Error(`${name} is imported: take it from UNUSED in console/build.ts`)
    const rules = readFileSync(join(packages, '@mantine/core/styles', `${name}.css`), 'utf8').trim()
    if (!rest.includes(rules)) throw new Error(`the rules of ${name} are not in Mantine's sheet`)
    return rest.replace(rules, () => '')
  }, sheet)
}

async function bundleScripts(): Promise<{ name: string; text: string; isEntry: boolean }[]> {
  const built = await Bun.build({
    entrypoints: [join(here, 'app/main.tsx'), join(here, 'parts/json-worker.ts')],
    root: here,
    target: 'browser',
    splitting: true,
    minify: true,
    sourcemap: 'none',
    jsx: { runtime: 'automatic', development: false },
    define: { 'process.env.NODE_ENV': '"production"' },
    naming: { entry: '[name]-[hash].[ext]', chunk: '[name]-[hash].[ext]', asset: '[name]-[hash].[ext]' },
  })
  return Promise.all(
    built.outputs.map(async (output) => ({
      name: output.path.replace(/^\.\//, ''),
      text: await output.text(),
      isEntry: output.kind === 'entry-point',
    })),
  )
}

/** Scripts that `text` imports at once, unlike those of `import()`. */
const importedBy = (text: string): string[] =>
  [...text.matchAll(/(?:\bfrom|\bimport)\s*"\.\/([^"]+\.js)"/g)].map(([, name = '']) => name)

/** The script of a worker, which the page names to it. */
const WORKER = 'json-worker-'

/** All scripts that the first load needs, the entry first. */
function firstLoad(scripts: readonly { name: string; text: string; isEntry: boolean }[]): string[] {
  const names = scripts.filter(({ isEntry, name }) => isEntry && !name.startsWith(WORKER)).map(({ name }) => name)
  for (const name of names)
    for (const next of importedBy(scripts.find((script) => script.name === name)?.text ?? ''))
      if (!names.includes(next)) names.push(next)
  return names
}

function fontFaces(assets: Assets): string {
  return FONTS.map(({ family, file }) => {
    const name = `${family.toLowerCase().replace(' ', '-')}.woff2`
    const path = assets.add(name, readFileSync(join(packages, file)))
    return (
      `@font-face{font-family:"${family}";font-style:normal;font-weight:100 900;font-display:swap;` +
      `src:url(${path}) format("woff2-variations")}\n`
    )
  }).join('')
}

/** The page of the API reference, with scripts and a sheet of its own. */
function referencePage(assets: Assets): string {
  const swagger = (file: string): string => readFileSync(join(packages, 'swagger-ui-dist', file), 'utf8')
  const own = (file: string): Buffer => readFileSync(join(here, 'styles/reference', file))
  const withoutMap = (text: string): string => text.replace(/(?:\/\/|\/\*)# sourceMappingURL=.*$/gm, '')
  return readFileSync(join(here, 'reference.html'), 'utf8')
    .replace('{icon.svg}', assets.add('icon.svg', readFileSync(join(here, 'styles/icon.svg'))))
    .replace('{swagger-ui.css}', assets.add('swagger-ui.css', withoutMap(swagger('swagger-ui.css'))))
    .replace('{swagger-ui.js}', assets.add('swagger-ui.js', withoutMap(swagger('swagger-ui-bundle.js'))))
    .replace('{scheme.js}', assets.add('scheme.js', readFileSync(join(here, 'styles/scheme.js'))))
    .replace('{reference.css}', assets.add('reference.css', own('reference.css')))
    .replace('{reference.js}', assets.add('reference.js', own('reference.js')))
}

/** Builds into `folder`, which is replaced as a whole. */
async function build(folder: string): Promise<void> {
  const next = `${folder}.new`
  rmSync(next, { recursive: true, force: true })
  const assets = new Assets(next)
  const faces = fontFaces(assets)
  const sheets = SHEETS.map(([name, files], index) => {
    const all = files.map((file) => readFileSync(file, 'utf8')).join('\n')
    const text = index === 0 ? usedRules(all) : all
    return assets.add(name, index === SHEETS.length - 1 ? faces + text : text)
  })
  const scripts = await bundleScripts()
  for (const { name, text } of scripts) assets.addAs(name, text)
  const [entry, ...others] = firstLoad(scripts)
  const modules = [
    `<script type="module" src="${SERVED}${entry}"></script>`,
    ...others.map((name) => `<link rel="modulepreload" href="${SERVED}${name}" />`),
  ]
  const styles = (file: string): Buffer => readFileSync(join(here, 'styles', file))
  const page = readFileSync(join(here, 'index.html'), 'utf8')
    .replace('{icon.svg}', assets.add('icon.svg', styles('icon.svg')))
    .replace('{json-worker.js}', SERVED + (scripts.find(({ name }) => name.startsWith(WORKER))?.name ?? ''))
    .replace('{scheme.js}', assets.add('scheme.js', styles('scheme.js')))
    .replace('{sheets}', sheets.map((path) => `<link rel="stylesheet" href="${path}" />`).join('\n    '))
    .replace('{modules}', modules.join('\n    '))
  writeFileSync(join(next, 'index.html'), page)
  writeFileSync(join(next, 'reference.html'), referencePage(assets))
  const first = [entry, ...others]
  writeFileSync(join(next, 'build.json'), `${JSON.stringify({ key: keyOfSources(), first, files: assets.files })}\n`)
  rmSync(folder, { recursive: true, force: true })
  renameSync(next, folder)
}

const LOCK_CHECK_MS = 50

/** Runs `work` while no other process builds. A lock of a process that has ended counts as none. */
export async function alone(lock: string, work: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' })
      break
    } catch {
      if (isAlive(Number(textOf(lock)))) await Bun.sleep(LOCK_CHECK_MS)
      else rmSync(lock, { force: true })
    }
  }
  try {
    await work()
  } finally {
    rmSync(lock, { force: true })
  }
}

const textOf = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

function isAlive(pid: number): boolean {
  // The file of a process that is just writing it is empty.
  if (pid === 0) return true
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

if (import.meta.main) {
  const folder = process.argv[2] ?? join(here, 'dist')
  await alone(`${folder}.lock`, async () => {
    if (keyOfBuild(folder) !== keyOfSources()) await build(folder)
  })
}
