import type { CaptureConfig } from './config.ts'
import { duration, name, names, object, size, type Shape } from './shape.ts'
import { CAPTURE_MODES, REDACTED_TEXTS } from './terms.ts'

const DAY_MS = 86_400_000

export const capture = object(
  {
    most: name(CAPTURE_MODES, 'The most that may be captured; keys, accounts and the console stay below it'),
    default: name(
      CAPTURE_MODES,
      'What is captured where no switch of a key, an account or the installation is in force',
    ),
    bytes: size('1KiB', '4MiB', 'Of each body; a longer one is cut in the middle'),
    keep: duration('1h', '90d', 'How long bodies are kept'),
    quota: size('1MiB', '1PiB', 'Bodies in all; the oldest are removed'),
    redact: names(REDACTED_TEXTS, {
      what: 'kinds of texts',
      description: 'Texts that are blanked in bodies, besides API keys, which always are',
    }),
  },
  { description: 'Bodies of requests and answers' },
)

type ReadCapture = typeof capture extends Shape<infer T> ? T : never

/** Nothing is captured unless the file allows it. */
export const readCapture = (read: ReadCapture = {}): CaptureConfig => ({
  most: read.most ?? 'off',
  default: read.default ?? 'off',
  bytes: read.bytes ?? 256 * 1024,
  keepMs: read.keep ?? 7 * DAY_MS,
  quotaBytes: read.quota ?? 5 * 2 ** 30,
  redact: read.redact ?? [],
})
