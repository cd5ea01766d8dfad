/** The types of what the management API answers, for its clients. */

export type { Page } from './answer.ts'
export type { SessionAnswer } from './session.ts'
