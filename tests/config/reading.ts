import { ConfigError, readConfig, type Config } from '../../src/config/load.ts'

/** The environment of every test that does not set its own. */
export const ENV = { PORT: '99', KEY: 'k-from-env', EMPTY: '', ON: 'true', LONG: 'sk-0123456789abcdef' }

export const read = (text: string): Config => readConfig(text, 'sluice.yaml', ENV)

/** The problems of a text, or none if it is valid. */
export const problemsOf = (text: string, env: Record<string, string | undefined> = ENV): string[] => {
  try {
    readConfig(text, 'sluice.yaml', env)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}
