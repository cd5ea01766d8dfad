import fc from 'fast-check'
import { IS_LONG } from './runs.ts'

// Properties try the same cases in each short run, so that a failure is due to a change. Long runs look for new cases.
if (!IS_LONG) fc.configureGlobal({ seed: 1 })
