/** Set by `npm run check`. */
const IS_QUICK = process.env.SLUICE_QUICK_TESTS === '1'
/** Set for runs of several hours, in which every property has its largest number of cases. */
export const IS_LONG = process.env.SLUICE_LONG_TESTS === '1'

/** The number of random cases: `short` in `npm test`, a quarter of it in `npm run check`. */
export const runs = (short: number, long: number): number => (IS_LONG ? long : IS_QUICK ? Math.ceil(short / 4) : short)
