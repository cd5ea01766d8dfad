/** Everything that a test has for itself: gateways, providers, folders. */
export class Scene {
  readonly #stops: (() => unknown)[] = []

  atEnd(stop: () => unknown): void {
    this.#stops.push(stop)
  }

  /** Ends first what came last. */
  async end(): Promise<void> {
    for (const stop of this.#stops.splice(0).reverse()) await stop()
  }
}

/**
 * The body of a test that has a scene of its own, so that it can run at the same time as others. The scene is ended
 * however the test ends.
 */
export const inScene =
  <S extends Pick<Scene, 'end'>>(make: () => S, run: (at: S) => Promise<void>) =>
  async (): Promise<void> => {
    const at = make()
    try {
      await run(at)
    } finally {
      await at.end()
    }
  }
