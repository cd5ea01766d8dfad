/** The number of elements with which both arrays begin. */
export function sameBeginning(one: readonly unknown[], other: readonly unknown[]): number {
  const most = Math.min(one.length, other.length)
  let count = 0
  while (count < most && one[count] === other[count]) count++
  return count
}
