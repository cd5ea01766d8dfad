import { metricsRoute } from './metrics.ts'
import { managed, type ManagementRoute } from './route.ts'
import { changeKey, createKey, getKey, listKeys, revokeKey, rotateKey } from './keys.ts'
import { beginSession, endSession, getSession, previewLink } from './session.ts'

const get = managed('GET')
const post = managed('POST')
const patch = managed('PATCH')
const remove = managed('DELETE')

/** The management API: who may do what, and which function does it. */
export const managementRoutes: readonly ManagementRoute[] = [
  metricsRoute,
  post('/session/preview', 'public', previewLink),
  post('/session', 'public', beginSession),
  get('/session', 'signed-in', getSession),
  remove('/session', 'signed-in', endSession),

  get('/keys', 'keys.read', listKeys),
  post('/keys', 'keys.change', createKey),
  get('/keys/{id}', 'keys.read', getKey),
  patch('/keys/{id}', 'keys.change', changeKey),
  remove('/keys/{id}', 'keys.change', revokeKey),
  post('/keys/{id}/rotate', 'keys.change', rotateKey),
]
