import { readFileSync } from 'node:fs'
import { UsageError } from './command.ts'

/** The text of a file, or of the standard input for `-`. */
export function readInput(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    throw new UsageError(`cannot read ${file}: ${(error as Error).message}`)
  }
}
