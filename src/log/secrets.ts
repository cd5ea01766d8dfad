/** Credentials of configured providers, of every gateway of this process. A longer one may contain another. */
let configuredSecrets: readonly string[] = []
/** The same with the other forms in which a provider may quote them. */
let configuredForms: readonly string[] = []

/** Shorter ones, as local servers have them (`none`, `ollama`), are words of any text. */
const SECRET_LENGTH_MIN = 8

/** Has `scrub` hide a configured credential, whatever its format. */
export function hideSecret(secret: string): void {
  if (secret.length < SECRET_LENGTH_MIN || configuredSecrets.includes(secret)) return
  configuredSecrets = longestFirst([...configuredSecrets, secret])
  configuredForms = longestFirst([...configuredForms, ...formsOf(secret)])
}

const longestFirst = (texts: readonly string[]): string[] => texts.toSorted((one, other) => other.length - one.length)

/** A credential as it is, in URLs, in JSON, also within JSON, and in base64. Most have one form and those of base64. */
function formsOf(secret: string): Set<string> {
  const url = encodeURIComponent(secret.toWellFormed())
  const json = JSON.stringify(secret).slice(1, -1)
  const escaped = [json.replaceAll('/', '\\/'), json.replaceAll('+', '\\u002B'), json.replaceAll('+', '\\u002b')]
  const inJson = [json, ...escaped].flatMap((text) => [text, text.replaceAll('\\', '\\\\')])
  const inUrl = [url, url.replace(/%[\dA-F]{2}/g, (byte) => byte.toLowerCase())]
  return new Set([secret, ...inUrl, ...inJson, ...base64Of(Buffer.from(secret))])
}

/** The characters that do not depend on what is before and behind it, for each of three places to begin. */
const base64Of = (secret: Buffer): string[] =>
  [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), secret])
    const [from, to] = [Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6)]
    return [bytes.toString('base64').slice(from, to), bytes.toString('base64url').slice(from, to)]
  })

const withoutConfigured = (text: string): string => {
  let hidden = text
  for (const form of configuredForms) if (hidden.includes(form)) hidden = hidden.replaceAll(form, '[hidden]')
  return hidden
}

/** The configured credentials, for a thread, which has none itself. */
export const configuredCredentials = (): readonly string[] => configuredSecrets

/** Patterns of credentials, each with its replacement. */
export const SECRET_PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{6,}/gi, '$1 [hidden]'],
  [/\b(?:sk|pk|rk|gsk|xai|key|pplx|nvapi|hf|r8|gh[oprsu]|github_pat)[-_][\w*.-]{6,}/gi, '[hidden]'],
  [/\bAIza[\w*-]{4,}/g, '[hidden]'],
  [/\bya29\.[\w.-]+/g, '[hidden]'],
  // In JSON within JSON, such as the arguments of tools, quotes are escaped. A value of JSON without quotes is a
  // number, which stays: what is left must be JSON, too.
  [
    new RegExp(
      '\\b(api[-_ ]?key|(?:access|auth|authorization|refresh)[-_ ]?token|authorization|client[-_ ]?secret|key)' +
        `(\\\\*["']\\s*[=:]\\s*\\\\*["']|\\s*[=:]\\s*\\\\*["']?)[\\w*.~+/=-]{8,}`,
      'gi',
    ),
    '$1$2[hidden]',
  ],
]

/**
 * Hides configured credentials, and everything that looks like one: API keys of known formats, bearer tokens, `key=`
 * parameters.
 */
export const scrub = (text: string): string =>
  SECRET_PATTERNS.reduce((hidden, [pattern, by]) => hidden.replace(pattern, by), withoutConfigured(text))
