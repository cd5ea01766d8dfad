import type { Outcome } from '../api/answers.ts'

/** Every outcome in words, in the order in which charts stack them and filters offer them. */
export const OUTCOME_WORDS: Readonly<Record<Outcome, string>> = {
  open: 'open',
  completed: 'completed',
  failed: 'failed',
  'timed-out': 'timed out',
  'client-left': 'client left',
  shutdown: 'shutdown',
  crashed: 'crashed',
  exhausted: 'balance used up',
  refused: 'refused',
}

/** The colour of an outcome in charts. */
export const OUTCOME_TONES: Readonly<Record<Outcome, string>> = {
  completed: 'chart-completed',
  open: 'chart-open',
  failed: 'chart-failed',
  'timed-out': 'chart-3',
  crashed: 'chart-5',
  shutdown: 'chart-4',
  exhausted: 'chart-8',
  refused: 'chart-refused',
  'client-left': 'chart-left',
}

export const OUTCOMES = Object.keys(OUTCOME_WORDS) as readonly Outcome[]

/** The outcomes that sums count as failed. */
const FAILED: readonly Outcome[] = ['failed', 'timed-out', 'shutdown', 'crashed']

/** The list of the requests that sums count as failed. */
export const FAILED_PATH = `/requests?${FAILED.map((outcome) => `outcome=${outcome}`).join('&')}`

/** The words of an outcome; other texts as they are. */
export const outcomeText = (value: string): string => OUTCOME_WORDS[value as Outcome] ?? value
