import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the modules in an executable of one file (`npm run build`); undefined where they are on the disk. */
const INSIDE = /^(?:\/\$bunfs|[A-Z]:[\\/]~BUN)[\\/]root/.exec(import.meta.dir)?.[0]

/** The argument with which such an executable runs another program than the command line: one of src/cli. */
export const PROGRAM_OPTION = '--sluice-program'

/** The path of a file of this project that is no module; `path`: from the folder of package.json. */
export const projectFile = (path: string): string => join(INSIDE ?? join(import.meta.dir, '../..'), path)

/** The command that runs a module of its own, such as `cli/worker.ts` of `src`. */
export const commandOf = (module: URL): string[] =>
  INSIDE === undefined
    ? [process.execPath, fileURLToPath(module)]
    : [process.execPath, PROGRAM_OPTION, module.pathname.slice(module.pathname.lastIndexOf('/') + 1)]

/** The command that runs the command line. */
export const commandLine = (): string[] =>
  INSIDE === undefined ? [process.execPath, ...process.execArgv, projectFile('src/main.ts')] : [process.execPath]

/** The address of a module for a thread. `path`: in `src`. */
export const threadModule = (path: string): string =>
  INSIDE === undefined ? new URL(`../${path}`, import.meta.url).href : `./${path}`
