/** Set by `npm run check`. */
const IS_QUICK = process.env.SLUICE_QUICK_TESTS === '1'
/** Set by whoever has hours: every property runs as often as its author could wish. */
export const IS_LONG = process.env.SLUICE_LONG_TESTS === '1'

/** How often something random is tried: `short` by `npm test`, a quarter of it by `npm run check`. */
export const runs = (short: number, long: number): number => (IS_LONG ? long : IS_QUICK ? Math.ceil(short / 4) : short)
