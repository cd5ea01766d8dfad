import { readItems } from '../endpoints/responses/heavy.ts'
import { answerHeavy } from '../pipeline/heavy/answer-job.ts'
import { prepareHeavy } from '../pipeline/heavy/job.ts'
import { serveJobs } from '../worker/serve.ts'

/** The process that works on heavy requests. The server starts it; see src/worker/pool.ts. */
await serveJobs({ prepare: prepareHeavy.bind(undefined, { responses: readItems }), answer: answerHeavy })
