import type { CaptureConfig } from './config.ts'
import { duration, located, name, names, object, size, type Shape } from './shape.ts'
import { CAPTURE_MODES, type CaptureMode, REDACTED_TEXTS } from './terms.ts'

const DAY_MS = 86_400_000

export const capture = object(
  {
    most: name(CAPTURE_MODES, 'The most that may be captured; keys, accounts and the console stay below it'),
    default: located(
      name(CAPTURE_MODES, 'What is captured where no switch of a key, an account or the installation is in force'),
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
  default: read.default?.value ?? 'off',
  bytes: read.bytes ?? 256 * 1024,
  keepMs: read.keep ?? 7 * DAY_MS,
  quotaBytes: read.quota ?? 5 * 2 ** 30,
  redact: read.redact ?? [],
})

export const isAbove = (mode: CaptureMode, most: CaptureMode): boolean =>
  CAPTURE_MODES.indexOf(mode) > CAPTURE_MODES.indexOf(most)

/**
 * Reports a file whose default captures less than it says. Of a default that was set at run time only the change is
 * refused: a file that allows less later has the last word.
 */
export function checkCapture({ most = 'off', default: byDefault }: ReadCapture = {}): void {
  if (byDefault !== undefined && isAbove(byDefault.value, most))
    byDefault.location.fail(`is ${byDefault.value}, above capture.most (${most}), so set most: ${byDefault.value}, too`)
}
