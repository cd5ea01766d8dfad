/** Thrown in a transaction that must not be made: nothing of it is, nor of what is written together with it. */
export class Refused extends Error {
  constructor() {
    super('a write that was to be made together with this one was refused')
  }
}

/** True where the write is made, false where it throws the refusal. */
export async function unlessRefused(write: (refusal: Refused) => Promise<unknown>): Promise<boolean> {
  const refusal = new Refused()
  try {
    await write(refusal)
    return true
  } catch (error) {
    if (error === refusal) return false
    throw error
  }
}

/** Waits for writes that are made together. Throws the error of the one that failed them. */
export async function allOf(writes: readonly Promise<unknown>[]): Promise<void> {
  const settled = await Promise.allSettled(writes)
  const errors = settled.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []))
  if (errors.length > 0) throw errors.find((error) => !(error instanceof Refused)) ?? errors[0]
}

/** The same, with the result of the first. */
export async function resultOf<T>(writes: readonly [Promise<T>, ...Promise<unknown>[]]): Promise<T> {
  await allOf(writes)
  return writes[0]
}

/** The same for a first one that may refuse: false where it does. */
export async function isAccepted(writes: readonly [Promise<boolean>, ...Promise<unknown>[]]): Promise<boolean> {
  try {
    return await resultOf(writes)
  } catch (error) {
    if (error instanceof Refused) return false
    throw error
  }
}
