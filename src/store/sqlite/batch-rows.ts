/** Rows read or deleted by one statement, so that none blocks the event loop for long. */
export const BATCH_ROWS = 200
