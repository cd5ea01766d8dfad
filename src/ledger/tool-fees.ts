import feesFile from '../../catalog/tool-fees.json'

/** By provider, the tools that it runs for a fee beside the tokens, which no fee item covers. */
const FEES: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  feesFile.fees.map(({ provider, tools }) => [provider, new Set(tools)]),
)

/** True for a tool whose fee the provider charges and no bill has. */
export const hasUnbilledFee = (provider: string, tool: string): boolean => FEES.get(provider)?.has(tool) === true
