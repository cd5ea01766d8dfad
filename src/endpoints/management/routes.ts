import { metricsRoute } from './metrics.ts'
import { managed, type ManagementRoute } from './route.ts'
import { changeAccount, createAccount, creditAccount, getAccount, listAccounts } from './accounts.ts'
import { getModel, getPlan, getProvider, listModels, listPlans, listProviders } from './catalogue.ts'
import { getBodies, getBody, removeAccountBodies, removeBodies } from './bodies.ts'
import { changeCapture, getCapture } from './capture.ts'
import { auditChanges, listChanges } from './changes.ts'
import { explain } from './explain.ts'
import { changeKey, createKey, getKey, listKeys, revokeKey, rotateKey } from './keys.ts'
import { beginAudit, getAudit, listBalances, listTransfers } from './book.ts'
import { getProviderHealth, listProviderHealth } from './health.ts'
import { listAllFiles, removeFile } from './files.ts'
import { listJobFiles } from './job-files.ts'
import { getJobQuota } from './job-quota.ts'
import { cancelJob, listJobs, listPredictionJobs } from './jobs.ts'
import { PAGE, RANGE, REQUEST_FILTERS, SPEED_NAMES, USAGE_NAMES } from './query-names.ts'
import { getSpeed } from './speed.ts'
import { previewModelRoute } from './route-preview.ts'
import { exportRequests } from './export.ts'
import { streamRequests } from './request-stream.ts'
import { getRequest, listRequests } from './requests.ts'
import { getUsage } from './usage.ts'
import { createPlaygroundKey } from './playground.ts'
import { removeProviderKey, setProviderKey, testProvider } from './provider-keys.ts'
import { beginSession, endSession, getSession, previewLink } from './session.ts'
import { checkPlanRemoval } from './plan-removal.ts'
import { patchProvider, putProvider, removeProvider } from './providers.ts'
import { routesOf } from './set-objects.ts'
import { exportSettings, getSettings, patchSettings, reloadSettings } from './settings.ts'
import { getSystem } from './system.ts'
import {
  changeUser,
  createLink,
  createUser,
  endUserSessions,
  getUser,
  listUsers,
  listUserSessions,
  removeUser,
  setPassword,
} from './users.ts'

const get = managed('GET')
const post = managed('POST')
const patch = managed('PATCH')
const put = managed('PUT')
const remove = managed('DELETE')

const models = routesOf('model', getModel)
const plans = routesOf('plan', getPlan, checkPlanRemoval)

/** The management API: who may do what, and which function does it. */
export const managementRoutes: readonly ManagementRoute[] = [
  metricsRoute,
  post('/session/preview', 'public', previewLink),
  post('/session', 'public', beginSession),
  get('/session', 'signed-in', getSession),
  remove('/session', 'signed-in', endSession),

  get('/keys', 'keys.read', listKeys, [...PAGE, 'account', 'revoked']),
  post('/keys', 'keys.change', createKey),
  get('/keys/{id}', 'keys.read', getKey),
  patch('/keys/{id}', 'keys.change', changeKey),
  remove('/keys/{id}', 'keys.change', revokeKey),
  post('/keys/{id}/rotate', 'keys.change', rotateKey),

  get('/accounts', 'accounts.read', listAccounts, [...PAGE, 'account']),
  post('/accounts', 'accounts.change', createAccount),
  get('/accounts/{id}', 'accounts.read', getAccount),
  patch('/accounts/{id}', 'people.change', changeAccount),
  post('/accounts/{id}/credits', 'accounts.change', creditAccount),
  remove('/accounts/{id}/bodies', 'bodies.read', removeAccountBodies),

  get('/users', 'people.read', listUsers, PAGE),
  post('/users', 'people.change', createUser),
  get('/users/{id}', 'signed-in', getUser),
  patch('/users/{id}', 'signed-in', changeUser),
  remove('/users/{id}', 'people.change', removeUser),
  post('/users/{id}/links', 'people.change', createLink),
  get('/users/{id}/sessions', 'signed-in', listUserSessions, PAGE),
  remove('/users/{id}/sessions', 'signed-in', endUserSessions),
  remove('/users/{id}/sessions/{sid}', 'signed-in', endUserSessions),
  put('/users/{id}/password', 'signed-in', setPassword),

  get('/requests', 'requests.read', listRequests, [...PAGE, ...REQUEST_FILTERS]),
  get('/requests/stream', 'requests.read', streamRequests, REQUEST_FILTERS),
  get('/requests/export', 'requests.read', exportRequests, [...REQUEST_FILTERS, 'format']),
  get('/requests/{id}', 'requests.read', getRequest),
  get('/requests/{id}/bodies', 'bodies.read', getBodies),
  get('/requests/{id}/bodies/{part}', 'bodies.read', getBody),
  remove('/requests/{id}/bodies', 'bodies.read', removeBodies),
  get('/usage', 'usage.read', getUsage, USAGE_NAMES),
  get('/changes', 'changes.read', listChanges, [...PAGE, 'account', 'actor', 'action', 'target']),
  post('/changes/audit', 'book.audit', auditChanges),
  get('/system', 'system.read', getSystem),
  get('/settings', 'settings.read', getSettings),
  patch('/settings', 'settings.change', patchSettings),
  get('/settings/capture', 'settings.read', getCapture),
  patch('/settings/capture', 'settings.change', changeCapture),
  post('/settings/reload', 'settings.change', reloadSettings),
  get('/settings/export.yaml', 'settings.change', exportSettings),
  get('/providers', 'settings.read', listProviders, PAGE),
  get('/providers/{id}', 'settings.read', getProvider),
  put('/providers/{id}', 'settings.change', putProvider),
  patch('/providers/{id}', 'settings.change', patchProvider),
  remove('/providers/{id}', 'settings.change', removeProvider),
  put('/providers/{id}/key', 'settings.change', setProviderKey),
  remove('/providers/{id}/key', 'settings.change', removeProviderKey),
  post('/providers/{id}/test', 'settings.change', testProvider),
  get('/models', 'models.read', listModels, [...PAGE, 'q', 'provider', 'on']),
  get('/models/{name}', 'models.read', getModel),
  put('/models/{name}', 'settings.change', models.put),
  remove('/models/{name}', 'settings.change', models.remove),
  get('/plans', 'models.read', listPlans, PAGE),
  get('/plans/{tier}', 'models.read', getPlan),
  put('/plans/{tier}', 'settings.change', plans.put),
  remove('/plans/{tier}', 'settings.change', plans.remove),
  post('/route', 'settings.read', previewModelRoute),
  post('/explain', 'playground.use', explain),
  post('/playground/keys', 'playground.use', createPlaygroundKey),
  get('/speed', 'usage.read', getSpeed, SPEED_NAMES),

  get('/book/balances', 'book.read', listBalances, [...PAGE, 'account']),
  get('/book/transfers', 'book.read', listTransfers, [...PAGE, ...RANGE, 'account', 'kind']),
  post('/book/audit', 'book.audit', beginAudit),
  get('/book/audit/{id}', 'book.audit', getAudit),

  get('/jobs', 'requests.read', listJobs, [...PAGE, 'account', 'open', 'kind']),
  get('/predictions', 'requests.read', listPredictionJobs, [...PAGE, 'account', 'open']),
  get('/jobs/quota', 'usage.read', getJobQuota, ['account']),
  get('/jobs/{id}/files', 'bodies.read', listJobFiles, PAGE),
  post('/jobs/{id}/cancel', 'jobs.change', cancelJob),
  get('/files', 'requests.read', listAllFiles, [...PAGE, 'account']),
  remove('/files/{id}', 'files.change', removeFile),
  get('/providers/{id}/health', 'settings.read', getProviderHealth),
  get('/health/providers', 'settings.read', listProviderHealth, PAGE),
]
