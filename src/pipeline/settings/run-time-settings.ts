import type { Config } from '../../config/config.ts'
import { ConfigFile } from '../../config/config-file.ts'
import { loadConfig } from '../../config/load.ts'
import type { Clock } from '../../accounts/clock.ts'
import type { Keys } from '../../accounts/keys.ts'
import { log } from '../../log/log.ts'
import type { Store } from '../../store/store.ts'
import { apply, build, buildFitting, idOf, type Modules, setUpBy, SettingsProblems } from './build.ts'
import { restoredRows, setRows, type SetKind, type SetObject, stored, type StoredObject } from './set-object.ts'

type App = Modules & { store: Store; keys: Keys; clock: Clock }

/** The row that is written when a server reads its file again. */
const RELOADED = { kind: 'reload', name: '' }

/** The configuration file, read again. */
type Read = { config: Config; file: ConfigFile }

/** An object with its new value; undefined removes it. */
export type Edit = SetObject

/**
 * Settings that were made at run time, in the store, below those of the configuration file. A change is validated and
 * built as a whole before it is stored and before it replaces what is in force.
 */
export class RunTimeSettings {
  readonly #app: App
  /** The file as the server began with it. */
  readonly started: ConfigFile
  #file: ConfigFile
  #objects = new Map<string, StoredObject>()
  /** Why stored objects are not in force. */
  #problems = new Map<string, string>()
  /** The rows as they were read last. */
  #read = '[]'
  #reloaded = 0
  /** The last change or reading: they follow one another. */
  #last: Promise<unknown> = Promise.resolve()

  private constructor(app: App) {
    this.#app = app
    this.#file = this.started = new ConfigFile({ ...app.config })
  }

  /** Puts in force what is stored, and follows what other servers change. */
  static async addedTo<T extends App>(app: T): Promise<T & { runTime: RunTimeSettings }> {
    const runTime = new RunTimeSettings(app)
    await runTime.#load()
    runTime.#reloaded = await runTime.#reloads()
    app.store.watch(() => runTime.#next(() => runTime.#follow()))
    return Object.assign(app, { runTime })
  }

  get file(): ConfigFile {
    return this.#file
  }

  find(kind: SetKind, name: string): StoredObject | undefined {
    return this.#objects.get(idOf(kind, name))
  }

  all(): StoredObject[] {
    return [...this.#objects.values()]
  }

  list(kind: SetKind): StoredObject[] {
    return this.all().filter((one) => one.kind === kind)
  }

  /** Why a stored object is not in force. */
  problemOf(kind: SetKind, name: string): string | undefined {
    return this.#problems.get(idOf(kind, name))
  }

  /** Where an object is set up that can only be changed there: `sluice.yaml:12`, or a variable. */
  setUpBy(kind: SetKind, name: string): string | undefined {
    return setUpBy(this.#file, this.#app.config, kind, name)
  }

  /**
   * Makes one change after those before it: `edit` reads what is set and gives what replaces it, `logged` writes its
   * line of the change log in the same transaction. Throws SettingsProblems, and what `edit` throws; nothing changes
   * then.
   */
  change(by: string, edit: () => Edit[], logged: () => Promise<void>): Promise<void> {
    return this.#next(async () => {
      await this.#load()
      const edits = edit()
      for (const { value } of edits) checkLiteral(value)
      const objects = new Map<string, SetObject>([...this.#objects].filter(([id]) => !this.#problems.has(id)))
      for (const one of edits) {
        if (one.value === undefined) objects.delete(idOf(one.kind, one.name))
        else objects.set(idOf(one.kind, one.name), one)
      }
      build(this.#file, this.#app.config, [...objects.values()])
      await this.#store(edits, by, logged)
      await this.#load()
    })
  }

  /**
   * Reads the configuration file again, and has other servers do so. `logged`: as for a change. Throws ConfigError or
   * SettingsProblems, and changes nothing then.
   */
  reload(by: string, logged: (file: ConfigFile) => Promise<void>): Promise<void> {
    return this.#next(async () => {
      const { store, clock } = this.#app
      const read = this.#readFile()
      await store.together(() =>
        Promise.all([store.setSettings.put({ ...RELOADED, value: '', at: clock.now(), by }), logged(read.file)]),
      )
      this.#reloaded = await this.#reloads()
      await this.#takeOver(read)
    })
  }

  /** A number that changes when a server reads its file again. */
  async #reloads(): Promise<number> {
    const [row] = await this.#app.store.setSettings.list(RELOADED.kind)
    return row?.version ?? 0
  }

  /** Reads the file again where another server has done so. */
  async #follow(): Promise<void> {
    const reloads = await this.#reloads()
    if (reloads !== this.#reloaded) {
      this.#reloaded = reloads
      await Promise.try(() => this.#takeOver(this.#readFile())).then(
        () => log.info(`${this.#file.name} is read again, as by another server`),
        (error: Error) => log.warn(`${this.#file.name} is not read again: ${error.message}`),
      )
    }
    await this.#load()
  }

  /** The file as it is now, validated. */
  #readFile(): Read {
    const { config } = this.#app
    const { text, file } = loadConfig(config.file === undefined ? {} : { file: config.file }, config.env)
    const next = { ...config, ...(text === undefined ? {} : { text }), ...(file === undefined ? {} : { file }) }
    const read = { config: next, file: new ConfigFile(next) }
    build(read.file, next, [])
    return read
  }

  async #takeOver({ config, file }: Read): Promise<void> {
    const { text, file: path } = config
    Object.assign(this.#app.config, text === undefined ? {} : { text }, path === undefined ? {} : { file: path })
    this.#file = file
    // The stored settings are put over the new file, also where it has not changed.
    this.#read = ''
    await this.#load()
  }

  #store(edits: readonly Edit[], by: string, logged: () => Promise<void>): Promise<unknown> {
    const { store, keys, clock } = this.#app
    return store.together(() =>
      Promise.all([
        ...edits.map((one) =>
          one.value === undefined
            ? store.setSettings.remove(one.kind, one.name)
            : store.setSettings.put({ kind: one.kind, name: one.name, value: stored(keys, one), at: clock.now(), by }),
        ),
        logged(),
      ]),
    )
  }

  /** Reads the store, and puts in force what has changed there. */
  async #load(): Promise<void> {
    const { store, keys } = this.#app
    const rows = await setRows(store)
    const read = JSON.stringify(rows)
    if (read === this.#read) return
    const objects = restoredRows(keys, rows)
    this.#objects = new Map(objects.map((one) => [idOf(one.kind, one.name), one]))
    this.#putInForce(objects)
    this.#read = read
  }

  #putInForce(objects: StoredObject[]): void {
    const { built, problems } = buildFitting(this.#file, this.#app.config, objects)
    for (const [id, problem] of problems) log.warn(`${id} of the console is not in force: ${problem}`)
    this.#problems = problems
    apply(this.#app, built)
  }

  #next<T>(run: () => Promise<T>): Promise<T> {
    const next = this.#last.then(run)
    this.#last = next.catch(() => {})
    return next
  }
}

/** Texts are taken as they are. In a file, `${NAME}` is a variable of the server, so none may look like one. */
function checkLiteral(value: unknown, path = ''): void {
  if (typeof value === 'string' && value.includes('${'))
    throw new SettingsProblems([{ path, message: 'must not contain ${: variables are for sluice.yaml alone' }])
  if (typeof value !== 'object' || value === null) return
  for (const [name, member] of Object.entries(value)) checkLiteral(member, path === '' ? name : `${path}.${name}`)
}
