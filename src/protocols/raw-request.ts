import { invalid } from '../error.ts'
import { checkJson } from '../json/scan.ts'
import { readText } from '../http/serve.ts'
import type { RawRequest } from './protocol.ts'

/** Reads a request body. Malformed, too deep or ambiguous JSON is a 400. */
export async function readRawRequest(
  request: Request,
  limitBytes: number,
  fromPath?: { model: string; stream: boolean },
): Promise<RawRequest> {
  return parseRawRequest(await readText(request, limitBytes), request.headers, fromPath)
}

/** The same for the text of a body. */
export function parseRawRequest(
  text: string,
  headers: Headers,
  fromPath?: { model: string; stream: boolean },
): RawRequest {
  // Checked before JSON.parse, which blocks the event loop for seconds on millions of open brackets.
  const problem = checkJson(text)
  if (problem !== undefined) throw invalid('body', problem)
  const body = parse(text)
  if (typeof body !== 'object' || body === null || Array.isArray(body)) throw invalid('body', 'must be a JSON object')
  return { body: body as Record<string, unknown>, text, headers, ...fromPath }
}

function parse(text: string): unknown {
  if (text.trim() === '') throw invalid('body', 'is empty: send a JSON object')
  try {
    return JSON.parse(text)
  } catch (error) {
    throw invalid('body', `is not valid JSON (${(error as Error).message.replace(/^JSON Parse error: /, '')})`)
  }
}
