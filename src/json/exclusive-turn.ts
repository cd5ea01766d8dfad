const waiting: (() => void)[] = []

/**
 * Resolves in a turn of the event loop in which nothing else that waits here goes on: a step of tens of milliseconds,
 * taken for many bodies at once, would hold up everything else for seconds.
 */
export const exclusiveTurn = (): Promise<void> =>
  new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(resolveNext)
  })

function resolveNext(): void {
  waiting.shift()!()
  if (waiting.length > 0) setImmediate(resolveNext)
}
