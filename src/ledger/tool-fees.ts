import feesFile from '../../catalog/tool-fees.json'

type FeeRow = { provider: string; tools: string[]; free?: string; why: string }

/** By provider, the tools that it runs for a fee beside the tokens that no fee item covers; `free`: a quota of it. */
const FEES: ReadonlyMap<string, ReadonlyMap<string, FeeRow>> = new Map(
  (feesFile.fees as FeeRow[]).map((row) => [row.provider, new Map(row.tools.map((tool) => [tool, row]))]),
)

/**
 * True for a tool whose fee the provider charges and no bill has. `isQuotaFree`: not one of which the operator has so
 * much for nothing that most never pay.
 */
export function hasUnbilledFee(provider: string, tool: string, isQuotaFree: boolean): boolean {
  const row = FEES.get(provider)?.get(tool)
  return row !== undefined && !(isQuotaFree && row.free !== undefined)
}
