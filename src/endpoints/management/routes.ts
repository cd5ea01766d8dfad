import { managed, type ManagementRoute } from './route.ts'
import { getSession } from './session.ts'

const get = managed('GET')

/** The management API: who may do what, and which function does it. */
export const managementRoutes: readonly ManagementRoute[] = [get('/session', 'signed-in', getSession)]
