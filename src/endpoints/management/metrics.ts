import type { AppContext } from '../../context.ts'
import { GatewayError } from '../../error.ts'
import { isLoopback } from '../../http/addresses.ts'
import { hostOf, isLoopbackHost } from '../../http/own-origin.ts'
import { listen, type Listening } from '../../http/serve.ts'
import { log } from '../../log/log.ts'
import { metricFamilies } from '../../pipeline/metric-families.ts'
import { exposition } from '../../telemetry/prometheus.ts'
import type { ManagementRequest, ManagementRoute } from './route.ts'

const PATH = '/metrics'
const ACTION = 'system.read'

/** Headers by which proxies show that a request is not from where its connection is. */
const PROXY_HEADERS = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip']

/** `GET /metrics` beside the API: for keys with a role on the installation, and for programs on this machine. */
export const metricsRoute: ManagementRoute = {
  keys: 'by role',
  name: 'metrics',
  method: 'GET',
  path: PATH,
  template: PATH,
  errorFormat: 'chat.completions',
  action: 'public',
  handle(app, inbound) {
    if (!app.config.metrics.enabled) throw disabled()
    if (app.config.worker !== undefined) throw ofOne(app.config.workers)
    if (!isOnThisMachine(app, inbound)) {
      inbound.caller.require(ACTION)
      if (!inbound.caller.may(ACTION)) inbound.caller.refuse(ACTION)
    }
    return writeMetrics(app)
  },
}

/** The listener for metrics alone; undefined where none is configured. It asks for no key. */
export function listenForMetrics(app: AppContext): Listening | undefined {
  const { enabled, host, port } = app.config.metrics
  if (!enabled || port === undefined) return undefined
  try {
    // A server that is replaced has the port, too, until it stops.
    const listening = listen({ host, port, shared: true, fetch: (request) => answerAlone(app, request) })
    log.info(`metrics on ${listening.url}${PATH}`)
    return listening
  } catch (error) {
    throw new Error(`metrics.port: ${(error as Error).message.split(';')[0]}`, { cause: error })
  }
}

async function answerAlone(app: AppContext, request: Request): Promise<Response> {
  if (new URL(request.url).pathname !== PATH) return new Response(`Metrics are at ${PATH}.\n`, { status: 404 })
  // The runtime sends no body to HEAD.
  if (request.method === 'GET' || request.method === 'HEAD') return writeMetrics(app)
  return new Response(`${PATH} takes GET.\n`, { status: 405, headers: { allow: 'GET, HEAD' } })
}

async function writeMetrics(app: AppContext): Promise<Response> {
  const { text, contentType } = await exposition(metricFamilies(app))
  return new Response(text, { headers: { 'content-type': contentType, 'cache-control': 'no-store' } })
}

/**
 * True where neither the server can be reached from elsewhere, as far as its settings say, nor the request was passed
 * on by a proxy.
 */
function isOnThisMachine({ config: { listen } }: AppContext, { request, address }: ManagementRequest): boolean {
  return (
    isLoopback(listen.host) &&
    listen.publicUrl === undefined &&
    isLoopback(address?.() ?? '') &&
    isLoopbackHost(hostOf(request)) &&
    !PROXY_HEADERS.some((name) => request.headers.has(name))
  )
}

const ofOne = (workers: number): GatewayError =>
  new GatewayError(
    'not_found',
    `Each of the ${workers} workers has metrics of its own: set metrics.port, and scrape it and the ports after it.`,
  )

const disabled = (): GatewayError =>
  new GatewayError('not_found', 'Metrics are switched off (metrics.enabled in the configuration).')
