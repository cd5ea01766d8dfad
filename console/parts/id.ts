const GENERATION = /(?:^|[^0-9a-z])((?:[a-z]{2,12}_|chatcmpl-)?[0-9a-f]{32})(?![0-9a-z])/i
const REQUEST = /(?:^|[^0-9a-z])(req_[0-9a-z-]{8,64})(?![0-9a-z])/i

/**
 * The id of a request within a pasted text, in any form in which a client or an error shows one: with the prefix of
 * its protocol, without one, or `req_...`; inside of quotes, of a sentence or of a URL.
 */
export function idIn(text: string): string | undefined {
  const [, generation] = GENERATION.exec(text) ?? []
  const [, request] = REQUEST.exec(text) ?? []
  return generation ?? request
}
