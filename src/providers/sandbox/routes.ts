import { GatewayError } from '../../error.ts'
import type { ProtocolName } from '../../generation/request.ts'

/**
 * The operation of a path. `array`: a stream as one JSON array, which is what Google sends without `alt=sse`.
 * `base`: the path before `/predictions`; without `id` a prediction is created.
 */
export type Route =
  | { kind: 'generate'; protocol: ProtocolName; model?: string; stream?: boolean; array?: boolean }
  | { kind: 'count'; protocol: 'messages' | 'responses' | 'generateContent'; model?: string }
  | { kind: 'compact'; protocol: 'responses' }
  | { kind: 'models'; model?: string }
  | { kind: 'prediction'; base: string; model?: string; id?: string; cancel: boolean }

const GOOGLE_PATH = /(?:.*\/models|^\/v\d\w*)\/([^:]+):(generateContent|streamGenerateContent|countTokens)$/

/**
 * Accepts any prefix before the protocol's own path, because clients join base URLs in different ways. Throws not_found
 * for an unknown path and method_not_allowed.
 */
export function routeOf(method: string, url: URL): Route {
  const path = decodePath(url.pathname).replace(/\/+$/, '')
  const google = GOOGLE_PATH.exec(path)
  const route = google === null ? routeOfPath(path) : googleRoute(google[1]!, google[2]!, url)
  if (route === undefined) throw new GatewayError('not_found', `The sandbox has no route ${path}.`)
  const expected =
    route.kind === 'models' || (route.kind === 'prediction' && route.id !== undefined && !route.cancel) ? 'GET' : 'POST'
  if (method !== expected) throw new GatewayError('method_not_allowed', `Use ${expected} for ${path}.`)
  return route
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    throw new GatewayError('invalid_request', 'The path is not valid percent-encoding.')
  }
}

function routeOfPath(path: string): Route | undefined {
  if (path.endsWith('/chat/completions')) return { kind: 'generate', protocol: 'chat.completions' }
  if (path.endsWith('/responses')) return { kind: 'generate', protocol: 'responses' }
  if (path.endsWith('/responses/compact')) return { kind: 'compact', protocol: 'responses' }
  if (path.endsWith('/responses/input_tokens')) return { kind: 'count', protocol: 'responses' }
  if (path.endsWith('/messages/count_tokens')) return { kind: 'count', protocol: 'messages' }
  if (path.endsWith('/messages')) return { kind: 'generate', protocol: 'messages' }
  if (path.endsWith('/images/generations')) return { kind: 'generate', protocol: 'images' }
  const prediction = /^(.*?)(?:\/models\/(.+))?\/predictions(?:\/([^/]+)(\/cancel)?)?$/.exec(path)
  if (prediction !== null) return predictionRoute(prediction)
  const models = /\/models(?:\/(.+))?$/.exec(path)
  return models === null ? undefined : { kind: 'models', ...(models[1] === undefined ? {} : { model: models[1] }) }
}

function predictionRoute([, base, model, id, cancel]: RegExpExecArray): Route {
  return {
    kind: 'prediction',
    base: base!,
    cancel: cancel !== undefined,
    ...(model === undefined ? {} : { model }),
    ...(id === undefined ? {} : { id }),
  }
}

function googleRoute(model: string, method: string, url: URL): Route {
  if (method === 'countTokens') return { kind: 'count', protocol: 'generateContent', model }
  const stream = method === 'streamGenerateContent'
  return {
    kind: 'generate',
    protocol: 'generateContent',
    model,
    stream,
    array: stream && url.searchParams.get('alt') !== 'sse',
  }
}
