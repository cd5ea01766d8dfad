import type { Target } from '../../protocols/protocol.ts'
import type { Endpoint } from '../../providers/catalogue.ts'

/** Targets of as many endpoints are known. */
const MOST = 1_000

/** Targets by protocol and text: those of two protocols are never one. */
const known = new Map<string, Target>()

/**
 * Gives endpoints that came from another process the targets of earlier jobs: what was written of a conversation is
 * remembered for the same object.
 */
export function useKnownTargets(endpoints: readonly Endpoint[]): void {
  for (const endpoint of endpoints) endpoint.target = knownTarget(endpoint)
}

function knownTarget({ protocol, target }: Endpoint): Target {
  const text = `${protocol} ${JSON.stringify(target)}`
  const before = known.get(text)
  if (before !== undefined) return before
  if (known.size >= MOST) known.delete(known.keys().next().value!)
  known.set(text, target)
  return target
}
