/** Subjects of a tagged signature other than a call id or the type of a part. */
export const SUBJECTS = {
  /** The reasoning item itself, whose text the issuer hides. */
  redactedReasoning: 'redacted',
  /** The reasoning item itself, which its issuer does not call a summary, as this protocol does. */
  reasoningWithoutForm: 'plain',
  /** A text part without a character, which no item can represent. */
  emptyText: 'empty',
} as const

const TAG = 'part\0'

/**
 * A signature of a part that has no field for one in this protocol (a signed tool call, a signed text): it is sent as
 * `encrypted_content` of a reasoning item right after the part, because every client replays those. `subject`: the call
 * id or the type of the part, or one of SUBJECTS.
 */
export const tagSignature = (subject: string, data: string): string => `${TAG}${subject}\0${data}`

/** Undoes `tagSignature`; undefined: the signature of the reasoning item itself. */
export function readTaggedSignature(signature: string): { subject: string; data: string } | undefined {
  if (!signature.startsWith(TAG)) return undefined
  const end = signature.indexOf('\0', TAG.length)
  return end < 0 ? undefined : { subject: signature.slice(TAG.length, end), data: signature.slice(end + 1) }
}

/** Reports whether the signature is that of the reasoning item itself. */
export const isOfReasoning = ({ subject }: { subject: string }): boolean => OWN_SUBJECTS.has(subject)

const OWN_SUBJECTS: ReadonlySet<string> = new Set([SUBJECTS.redactedReasoning, SUBJECTS.reasoningWithoutForm])
