import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { LineCounter, parseDocument, type YAMLError } from 'yaml'
import { checkCapture } from './capture-settings.ts'
import { ConfigError, type Config, type Environment } from './config.ts'
import { Source, TooManyValues, type Problem } from './location.ts'
import { FILE } from './schema.ts'
import { type ReadFile, toConfig } from './settings.ts'

export * from './config.ts'

export type Options = { file?: string; data?: string; host?: string; port?: string }

const DEFAULT_FILE = 'sluice.yaml'
const MAX_FILE_BYTES = 1024 * 1024

/**
 * Reads the configuration. Precedence: command-line option, SLUICE_* variable, file, default. Throws ConfigError with
 * every problem found.
 */
export function loadConfig(options: Options, env: Environment): Config {
  const named = options.file ?? variable(env, 'SLUICE_CONFIG')
  const file = named ?? (exists(DEFAULT_FILE) ? DEFAULT_FILE : undefined)
  const config = file === undefined ? readConfig('', DEFAULT_FILE, env) : readNamed(file, env)
  const data = override(options.data, '--data', env, 'SLUICE_DATA')
  const host = override(options.host, '--host', env, 'SLUICE_HOST')
  const port = override(options.port, '--port', env, 'SLUICE_PORT')
  if (data !== undefined) config.data = resolve(data.text)
  if (host !== undefined) config.listen.host = host.text
  if (port !== undefined) config.listen.port = portNumber(port)
  checkPorts(config)
  return config
}

/** Both listeners share their ports with a successor, and so would with each other: each gets half of the requests. */
function checkPorts({ listen, metrics, workers }: Config): void {
  const { enabled, port: first } = metrics
  if (!enabled || first === undefined || first === 0) return
  if (listen.port < first || listen.port >= first + workers) return
  const taken = workers === 1 ? `${first}, too` : `${listen.port}, one of those of the ${workers} workers`
  throw new ConfigError([`metrics.port: the port of the API is ${taken}; choose another one`])
}

function readNamed(file: string, env: Environment): Config {
  const text = readText(file)
  return { ...readConfig(text, file, env), file: resolve(file), text }
}

/** `from`: the name of the option or variable. */
type Override = { text: string; from: string }

function override(
  option: string | undefined,
  flag: string,
  env: Environment,
  variableName: string,
): Override | undefined {
  if (option === '') throw new ConfigError([`${flag}: must not be empty`])
  if (option !== undefined) return { text: option, from: flag }
  const text = variable(env, variableName)
  return text === undefined ? undefined : { text, from: variableName }
}

/** An empty variable counts as unset, as in most tools. */
const variable = (env: Environment, name: string): string | undefined => (env[name] === '' ? undefined : env[name])

function portNumber({ text, from }: Override): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Infinity
  if (port > 65535) throw new ConfigError([`${from}: must be a whole number from 0 to 65535`])
  return port
}

const exists = (file: string): boolean => statSync(file, { throwIfNoEntry: false })?.isFile() === true

function readText(file: string): string {
  try {
    const bytes = statSync(file).isFile() ? readFileSync(file) : undefined
    if (bytes === undefined) throw new ConfigError([`${file}: must be a file`])
    if (bytes.length > MAX_FILE_BYTES)
      throw new ConfigError([`${file}: must be at most 1 MiB, not ${bytes.length} bytes`])
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    if (error instanceof ConfigError) throw error
    if (error instanceof TypeError) throw new ConfigError([`${file}: must be UTF-8 text`])
    throw new ConfigError([
      `${file}: cannot be read: ${isMissing(error) ? 'there is no such file' : (error as Error).message}`,
    ])
  }
}

const isMissing = (error: unknown): boolean => (error as { code?: string }).code === 'ENOENT'

/** The configuration in the text of sluice.yaml. `file`: its name, for error messages. Throws only ConfigError. */
export function readConfig(text: string, file: string, env: Environment): Config {
  const { source, read } = readFile(text, file, env)
  const config = read === undefined ? undefined : toConfig(read, env)
  checkCapture(read?.capture)
  if (source.problems.length > 0 || config === undefined) throw refusal(source.problems, file)
  return config
}

/** The values in the text of sluice.yaml, and its source, which has their problems. Throws ConfigError. */
export function readFile(text: string, file: string, env: Environment): { source: Source; read: ReadFile | undefined } {
  const lines = new LineCounter()
  const source = new Source(
    parse(text, lines, (problems) => refusal(problems, file)),
    lines,
    env,
  )
  try {
    const root = source.root()
    return { source, read: root === undefined ? undefined : FILE.read(root) }
  } catch (error) {
    throw error instanceof TooManyValues ? refusal([error.problem], file) : error
  }
}

const refusal = (problems: Problem[], file: string): ConfigError => new ConfigError(located(problems, file))

const MAX_PROBLEMS = 50

function located(problems: Problem[], file: string): string[] {
  const sorted = problems.toSorted((a, b) => a.line - b.line || a.column - b.column)
  const lines = sorted
    .slice(0, MAX_PROBLEMS)
    .map(
      ({ line, column, path, message }) => `${file}:${line}:${column}: ${path === '' ? message : `${path} ${message}`}`,
    )
  return sorted.length > MAX_PROBLEMS ? [...lines, `${file}: ${sorted.length - MAX_PROBLEMS} more problems`] : lines
}

function parse(
  text: string,
  lines: LineCounter,
  refuse: (problems: Problem[]) => ConfigError,
): ReturnType<typeof parseDocument> {
  try {
    // Duplicate keys are found while reading: the search of the YAML library takes quadratic time.
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, uniqueKeys: false })
    // Later errors are mostly consequences of the first one.
    const [error] = [...document.errors, ...document.warnings].sort((a, b) => a.pos[0] - b.pos[0])
    if (error !== undefined) throw refuse([syntaxProblem(error, text, lines)])
    return document
  } catch (error) {
    if (error instanceof ConfigError) throw error
    // The YAML library is recursive: nesting of thousands of levels ends in a RangeError.
    const reason = error instanceof RangeError ? 'it is nested too deeply' : (error as Error).message
    throw refuse([{ line: 1, column: 1, path: '', message: `cannot be read as YAML: ${reason}` }])
  }
}

function syntaxProblem(error: YAMLError, text: string, lines: LineCounter): Problem {
  const { line, col } = lines.linePos(error.pos[0])
  const lineText = text.split('\n')[line - 1] ?? ''
  const message =
    error.code === 'MULTIPLE_DOCS'
      ? 'must be a single document, without a second one after ---'
      : lineText.includes('${') && /[[{]/.test(lineText.replaceAll('${', ''))
        ? `${error.message}; \${...} inside { } or [ ] must be quoted`
        : error.message
  return { line: Math.max(line, 1), column: Math.max(col, 1), path: '', message }
}
