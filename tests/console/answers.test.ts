/** The console's types of answers agree with those of the gateway: this file has to compile. */
import { expect, test } from 'bun:test'
import type * as Console from '../../console/api/answers.ts'
import type * as Book from '../../console/pages/book/shapes.ts'
import type * as Detail from '../../console/pages/request/detail.ts'
import type { Job } from '../../console/pages/jobs/job.ts'
import type * as Gateway from '../../src/endpoints/management/answers.ts'

/** Each answer of the gateway can be read as the console expects it. */
const READ = {
  key: (answer: Gateway.KeyAnswer): Console.Key => answer,
  newKey: (answer: Gateway.NewKeyAnswer): Console.NewKey => answer,
  account: (answer: Gateway.AccountAnswer): Console.Account => answer,
  credit: (answer: Gateway.CreditAnswer): Console.Posted => answer,
  user: (answer: Gateway.UserAnswer): Console.User => answer,
  userSession: (answer: Gateway.UserSessionAnswer): Console.UserSession => answer,
  newLink: (answer: Gateway.NewLinkAnswer): Console.NewLink => answer,
  request: (answer: Gateway.RequestAnswer): Omit<Console.RequestRow, 'outcome'> => answer,
  job: (answer: Gateway.JobAnswer): Job => answer,
  usage: (answer: Gateway.UsageAnswer): Console.Usage => answer,
  provider: (answer: Gateway.ProviderAnswer): Console.Provider => answer,
  providerTest: (answer: Gateway.ProviderTestAnswer): Console.ProviderTest => answer,
  providerHealth: (answer: Gateway.ProviderHealthAnswer): Console.ProviderHealth => answer,
  model: (answer: Gateway.ModelAnswer): Console.Model => answer,
  plan: (answer: Gateway.PlanAnswer): Console.Plan => answer,
  change: (answer: Gateway.ChangeAnswer): Console.Change => answer,
  system: (answer: Gateway.SystemAnswer): Console.System => answer,
  speed: (answer: Gateway.SpeedAnswer): Console.Speed => answer,
  settings: (answer: Gateway.SettingsAnswer): Console.Settings => answer,
  balance: (answer: Gateway.BalanceAnswer): Book.Balance => answer,
  transfer: (answer: Gateway.TransferAnswer): Book.Transfer => answer,
  audit: (answer: Gateway.AuditAnswer): Book.Audit => answer,
  requestDetail: (answer: Gateway.RequestDetailAnswer): Omit<Detail.RequestDetail, 'outcome' | 'translation'> => answer,
  session: (answer: Gateway.CapturesAnswer): Console.Session['capture'] => answer,
  bodies: (answer: Gateway.BodiesAnswer): Console.Bodies => answer,
  linkPreview: (answer: Gateway.LinkPreview): Console.LinkPreview => answer,
}

test('answers of the gateway have the types that the console reads', () => {
  const answer = {} as never
  for (const read of Object.values(READ)) expect(read(answer)).toBe(answer)
})
