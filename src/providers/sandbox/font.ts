/** Width and height of a letter, and how far it is from one to the next and from line to line. */
export const LETTER = { width: 5, height: 7, advance: 6, line: 10 } as const

/**
 * A letter is its seven rows from the top, each five bits in base 32: `ehhvhhh` is the A. From the space on in the
 * order of ASCII.
 */
const GLYPHS = (
  '0000000 4444404 aaa0000 aavavaa 4fke5u4 op248j3 cik8lid 4480000 2488842 8422248 04lel40 044v440 0000c48 000v000 00000cc 01248g0 ' +
  'ehjlphe 4c4444e eh1248v v2421he 26aiv22 vgu11he 68guhhe v124888 ehhehhe ehhf12c 0cc0cc0 0cc0c48 248g842 00v0v00 8421248 eh12404 ' +
  'eh1dlle ehhhvhh uhhuhhu ehggghe sihhhis vgguggv vgguggg ehgnhhf hhhvhhh e44444e 72222ic hikokih ggggggv hrllhhh hhpljhh ehhhhhe ' +
  'uhhuggg ehhhlid uhhukih fgge11u v444444 hhhhhhe hhhhha4 hhhllla hha4ahh hhha444 v1248gv e88888e 0g84210 e22222e 4ah0000 000000v ' +
  '8420000 00e1fhf ggmphhu 00egghe 11djhhf 00ehvge 698s888 0fhhf1e ggmphhh 40c444e 20622ic ggikoki c44444e 00qllhh 00mphhh 00ehhhe ' +
  '00uhugg 00djf11 00mpggg 00ege1u 88s8896 00hhhjd 00hhha4 00hhlla 00ha4ah 00hhf1e 00v248v 2448442 4444444 8442448 008l200'
)
  .split(' ')
  .map((rows) => [...rows].map((row) => Number.parseInt(row, 32)))

/** What stands for a letter that the font does not have: an empty box. */
const BOX = [...'vhhhhhv'].map((row) => Number.parseInt(row, 32))

/** The rows of a letter, five bits each, the highest on the left. */
export const glyphOf = (letter: string): readonly number[] =>
  (letter.length === 1 ? GLYPHS[letter.charCodeAt(0) - 32] : undefined) ?? BOX
