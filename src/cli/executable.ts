import { PROGRAM_OPTION } from '../worker/modules.ts'

/** The programs of an executable of one file, which starts itself where the server starts `src/cli/NAME`. */
const PROGRAMS: Record<string, () => Promise<unknown>> = {
  'worker.ts': () => import('./worker.ts'),
  'sandbox.ts': () => import('./sandbox.ts'),
}

const [option, name = ''] = process.argv.slice(2)
await (option === PROGRAM_OPTION ? PROGRAMS[name]!() : import('../main.ts'))
