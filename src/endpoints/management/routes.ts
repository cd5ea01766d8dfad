import { managed, type ManagementRoute } from './route.ts'
import { beginSession, endSession, getSession, previewLink } from './session.ts'

const get = managed('GET')
const post = managed('POST')
const remove = managed('DELETE')

/** The management API: who may do what, and which function does it. */
export const managementRoutes: readonly ManagementRoute[] = [
  post('/session/preview', 'public', previewLink),
  post('/session', 'public', beginSession),
  get('/session', 'signed-in', getSession),
  remove('/session', 'signed-in', endSession),
]
