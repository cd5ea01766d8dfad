/** PostgreSQL takes 8,000 bytes. */
export const MESSAGE_BYTES = 7_500

/** Short texts from one process to all others of a store. They may be lost. */
export interface ProcessMessages {
  /** `text`: at most MESSAGE_BYTES. */
  send(text: string): void
  /** Calls the one listener with each text of another process. */
  listen(listener: (text: string) => void): void
}
