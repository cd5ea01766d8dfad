/** What a test needs for itself: gateways, providers, folders. */
type Scene = { end(): Promise<void> }

/**
 * The body of a test that has a scene of its own, so that it can run at the same time as others. The scene is ended
 * however the test ends.
 */
export const inScene =
  <S extends Scene>(make: () => S, run: (at: S) => Promise<void>) =>
  async (): Promise<void> => {
    const at = make()
    try {
      await run(at)
    } finally {
      await at.end()
    }
  }
