import type { Caller } from '../../accounts/caller.ts'
import type { Action } from '../../accounts/roles.ts'
import type { AppContext, PublicRequest } from '../../context.ts'

/**
 * A request to the management API. `clientAddress`: beyond proxies of ours. `identifyAgain`: reads the caller again
 * after a body, during which its session may have ended and its roles may have changed.
 */
export type ManagementRequest = PublicRequest & {
  caller: Caller
  clientAddress: string | undefined
  /** The same for all processes that share a pepper. */
  cursorKey: Buffer
  identifyAgain?: () => Promise<void>
}

/** The context of the management API: that of the pipeline, and predictions that run. */
export type ManagementContext = AppContext & {
  predictor: {
    cancel(accountId: string, id: string): Promise<unknown>
    find(accountId: string, id: string): Promise<{ output: unknown; origin: string } | undefined>
    running(id: string): { logs: string } | undefined
  }
}

type Handled = Promise<Response> | Response

/**
 * A row of the management API. `action`: the caller must have a role with it somewhere, the handler checks where.
 * `signed-in`: any person or management key; `public`: also requests without either.
 */
export type ManagementRoute = {
  keys: 'by role'
  /** Routes of one name have one per-minute counter for each key. */
  name: string
  method: string
  path: string | RegExp
  /** The path with its parameters: `/v1/management/keys/{id}`. */
  template: string
  errorFormat: 'chat.completions'
  action: Action | 'signed-in' | 'public'
  /** Names of its query parameters; undefined where all are ignored. */
  query?: readonly string[]
  handle(app: ManagementContext, inbound: ManagementRequest): Handled
}

const BASE = '/v1/management'

/** `path`: below `/v1/management`; `{name}` is one segment, which becomes an element of `inbound.params`. */
export const managed =
  (method: string) =>
  (
    path: string,
    action: ManagementRoute['action'],
    handle: ManagementRoute['handle'],
    query: readonly string[] = [],
  ): ManagementRoute => {
    const template = BASE + path
    return {
      keys: 'by role',
      name: `${method.toLowerCase()} management${path}`,
      method,
      path: path.includes('{') ? new RegExp(`^${template.replace(/\{\w+\}/g, '([^/]+)')}$`) : template,
      template,
      errorFormat: 'chat.completions',
      action,
      query,
      handle,
    }
  }
