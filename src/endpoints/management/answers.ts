/** The types of what the management API answers, for its clients. */

export type { BodiesAnswer, BodiesOfRequest, BodyAnswer } from './bodies.ts'
export type { CaptureAnswer, CaptureOnAnswer, CapturesAnswer, InstallationCaptureAnswer } from './capture.ts'
export type { AccountAnswer, CreditAnswer } from './accounts.ts'
export type { Page } from './answer.ts'
export type { KeyAnswer, NewKeyAnswer } from './keys.ts'
export type { LinkPreview, SessionAnswer } from './session.ts'
export type { NewLinkAnswer, UserAnswer, UserSessionAnswer } from './users.ts'
export type { Named } from './names.ts'
export type {
  AttemptAnswer,
  PostingAnswer,
  RatingAnswer,
  RequestAnswer,
  RequestDetailAnswer,
  TokenCounts,
} from './requests.ts'
export type { Measures, UsageAnswer, UsageGroupAnswer } from './usage.ts'
export type { ChangeAnswer, ChangesAuditAnswer } from './changes.ts'
export type { ModelAnswer, PlanAnswer, ProviderAnswer } from './catalogue.ts'
export type { PlaygroundKeyAnswer } from './playground.ts'
export type { ReloadAnswer, RunTimeSettingAnswer, SettingsAnswer } from './settings.ts'
export type { SetAnswer } from './set-objects.ts'
export type { SystemAnswer } from './system.ts'
export type { ExplainAnswer } from './explain.ts'
export type { RouteAnswer } from './route-preview.ts'
export type { AuditAnswer, BalanceAnswer, BookAccountAnswer, TransferAnswer } from './book.ts'
export type { ProviderHealthAnswer } from './health.ts'
export type { FileAnswer } from './files.ts'
export type { JobFileAnswer } from './job-files.ts'
export type { JobQuotaAnswer } from './job-quota.ts'
export type { JobAnswer } from './jobs.ts'
export type { SpeedAnswer, SpeedMeasures } from './speed.ts'
export type { ProviderTestAnswer } from './provider-keys.ts'
