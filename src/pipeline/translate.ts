import { fold, withUsage, type GenerationEvent } from '../generation/event.ts'
import type { Usage } from '../generation/usage.ts'
import { protocols } from '../protocols/index.ts'
import { lossReport } from '../protocols/losses.ts'
import type { ResponseContext } from '../protocols/protocol.ts'

/** Events -> the JSON text of a response in the client's protocol, with the losses where the client asked for them. */
export function translate(events: GenerationEvent[], counted: Usage | undefined, context: ResponseContext): string {
  const answer = protocols[context.request.protocol].serve.writeResponse(fold(withUsage(events, counted)), context)
  return JSON.stringify({ ...answer, ...lossReport(context) })
}
