/** Strings and numbers for `body-scan.as.ts`, which says what is in memory. */

const ONES: u64 = 0x0101010101010101
const HIGH: u64 = 0x8080808080808080

export const QUOTE: u8 = 34
const BACKSLASH: u8 = 92

/** The high bit of each byte that ends a run of plain characters: a quote, a backslash or a control character. */
export function special(word: u64): u64 {
  const quotes = word ^ (ONES * 34)
  const slashes = word ^ (ONES * 92)
  return (((quotes - ONES) & ~quotes) | ((slashes - ONES) & ~slashes) | ((word - ONES * 32) & ~word)) & HIGH
}

function isHex(c: u32): bool {
  return c - 48 < 10 || (c | 32) - 97 < 6
}

/** The address behind a string whose first character is at `at`; 0 if it is invalid. The zero bytes end any. */
export function skipString(at: usize): usize {
  while (true) {
    const found = special(load<u64>(at))
    if (found == 0) {
      at += 8
      continue
    }
    at += <usize>ctz(found) >> 3
    const c = load<u8>(at)
    if (c == QUOTE) return at + 1
    if (c != BACKSLASH) return 0
    const escaped = load<u8>(at + 1)
    if (escaped == 117) {
      if (!isHex(load<u8>(at + 2)) || !isHex(load<u8>(at + 3)) || !isHex(load<u8>(at + 4)) || !isHex(load<u8>(at + 5)))
        return 0
      at += 6
    } else if (
      escaped == 110 ||
      escaped == QUOTE ||
      escaped == BACKSLASH ||
      escaped == 116 ||
      escaped == 114 ||
      escaped == 47 ||
      escaped == 98 ||
      escaped == 102
    )
      at += 2
    else return 0
  }
}

/** The number of commas in [`from`, `end`). */
export function countCommas(from: usize, end: usize): u32 {
  let commas: u32 = 0
  let at = from
  for (; at + 8 <= end; at += 8) {
    const differs = load<u64>(at) ^ (ONES * 44)
    commas += 8 - <u32>popcnt((((differs & ~HIGH) + ~HIGH) | differs) & HIGH)
  }
  for (; at < end; at++) if (load<u8>(at) == 44) commas++
  return commas
}

function isDigit(at: usize): bool {
  return <u32>load<u8>(at) - 48 < 10
}

/** The address behind the digits at `at`; 0 where there are none. */
function skipDigits(at: usize): usize {
  if (!isDigit(at)) return 0
  do at++
  while (isDigit(at))
  return at
}

/** The address behind a number; 0 if it is invalid. */
export function skipNumber(from: usize): usize {
  let at = load<u8>(from) == 45 ? from + 1 : from
  at = load<u8>(at) == 48 ? at + 1 : skipDigits(at)
  if (at != 0 && load<u8>(at) == 46) at = skipDigits(at + 1)
  if (at != 0 && (load<u8>(at) | 32) == 101) {
    const sign = load<u8>(at + 1)
    at = skipDigits(sign == 43 || sign == 45 ? at + 2 : at + 1)
  }
  return at
}
