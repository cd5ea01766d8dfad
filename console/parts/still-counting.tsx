import { shortWhenText } from './when.ts'
import { useZone } from './when.tsx'

type Props = { of: { from: string; counted_from: string | null } }

/** Says which part of a range its sums lack while records of an earlier version are still being counted. */
export function StillCounting({ of: { from, counted_from } }: Props) {
  const zone = useZone()
  const since = counted_from === null ? Number.NEGATIVE_INFINITY : Date.parse(counted_from)
  if (since <= Date.parse(from)) return null
  return (
    <p className="dim still-counting">
      Requests before {shortWhenText(since, zone, Date.now())} are still being counted and are missing here.
    </p>
  )
}
