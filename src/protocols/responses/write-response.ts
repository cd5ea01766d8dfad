import { unfold, type GenerationResponse } from '../../generation/event.ts'
import type { ResponseContext } from '../protocol.ts'
import { ResponsesResponseWriter } from './write-response-stream.ts'

/** A whole response -> the response object with which its stream would end. */
export function writeResponse(answer: GenerationResponse, context: ResponseContext): object {
  const writer = new ResponsesResponseWriter(context)
  for (const event of unfold(answer)) writer.write(event)
  return writer.response
}
