/** Credentials of configured providers, of every gateway of this process. A longer one may contain another. */
let configuredSecrets: readonly string[] = []

/** Shorter ones, as local servers have them (`none`, `ollama`), are words of any text. */
const SECRET_LENGTH_MIN = 8

/** Has `scrub` hide a configured credential, whatever its format. */
export function hideSecret(secret: string): void {
  if (secret.length < SECRET_LENGTH_MIN || configuredSecrets.includes(secret)) return
  configuredSecrets = [...configuredSecrets, secret].sort((one, other) => other.length - one.length)
}

const withoutConfigured = (text: string): string => {
  let hidden = text
  for (const secret of configuredSecrets) if (hidden.includes(secret)) hidden = hidden.replaceAll(secret, '[hidden]')
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
