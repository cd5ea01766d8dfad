/**
 * Real time at which a generation was admitted, received its first event, and was last due to be written as open.
 * `changed`, `moved`: it received more since it was last written, or its progress was. `isOld`: it was due since it
 * began.
 */
export type Age = {
  bornMs: number
  begunMs?: number
  dueMs?: number
  changed: boolean
  moved: boolean
  isOld: boolean
  /** Old ones are looked at in this order, after the others. */
  order: number
}

/** True where a generation of this age has to be written as open. */
export function isDueAt({ bornMs, begunMs, dueMs, isOld }: Age, nowMs: number): boolean {
  if (begunMs !== undefined && !isOld) return nowMs - begunMs > 20
  return dueMs === undefined ? nowMs - bornMs > 100 : nowMs - dueMs > 5_000
}
