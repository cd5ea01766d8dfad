import { GatewayError } from '../../error.ts'
import type { ProtocolName } from '../../generation/request.ts'

/** What a path asks for. `array`: a stream as one JSON array, which is what Google sends without `alt=sse`. */
export type Route =
  | { kind: 'generate'; protocol: ProtocolName; model?: string; stream?: boolean; array?: boolean }
  | { kind: 'count'; protocol: 'messages' | 'generateContent'; model?: string }
  | { kind: 'models'; model?: string }
  /** `base`: the path before `/predictions`. Without an id one is created. */
  | { kind: 'prediction'; base: string; model?: string; id?: string; cancel: boolean }

/** Any prefix before the protocol's own path is accepted, so that every client's way of joining a base URL works. */
export function routeOf(method: string, url: URL): Route {
  const path = decoded(url.pathname).replace(/\/+$/, '')
  const google = /(?:.*\/models|^\/v\d\w*)\/([^:]+):(generateContent|streamGenerateContent|countTokens)$/.exec(path)
  const route = google === null ? named(path) : googles(google[1]!, google[2]!, url)
  if (route === undefined) throw new GatewayError('not_found', `The sandbox has nothing at ${path}.`)
  const expected =
    route.kind === 'models' || (route.kind === 'prediction' && route.id !== undefined && !route.cancel) ? 'GET' : 'POST'
  if (method !== expected) throw new GatewayError('method_not_allowed', `${path} takes ${expected}.`)
  return route
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    throw new GatewayError('invalid_request', 'The path is not valid percent-encoding.')
  }
}

function named(path: string): Route | undefined {
  if (path.endsWith('/chat/completions')) return { kind: 'generate', protocol: 'chat.completions' }
  if (path.endsWith('/responses')) return { kind: 'generate', protocol: 'responses' }
  if (path.endsWith('/messages/count_tokens')) return { kind: 'count', protocol: 'messages' }
  if (path.endsWith('/messages')) return { kind: 'generate', protocol: 'messages' }
  if (path.endsWith('/images/generations')) return { kind: 'generate', protocol: 'images' }
  const prediction = /^(.*?)(?:\/models\/(.+))?\/predictions(?:\/([^/]+)(\/cancel)?)?$/.exec(path)
  if (prediction !== null) return predictions(prediction)
  const models = /\/models(?:\/(.+))?$/.exec(path)
  return models === null ? undefined : { kind: 'models', ...(models[1] === undefined ? {} : { model: models[1] }) }
}

function predictions([, base, model, id, cancel]: RegExpExecArray): Route {
  return {
    kind: 'prediction',
    base: base!,
    cancel: cancel !== undefined,
    ...(model === undefined ? {} : { model }),
    ...(id === undefined ? {} : { id }),
  }
}

function googles(model: string, method: string, url: URL): Route {
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
