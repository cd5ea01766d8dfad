/** Activity of an account in the last hour, as one process has counted it. Times are whole minutes ago. */
export type Activity = {
  accountId: string
  /** Minutes in which there was anything: refusals, and the most concurrent requests. */
  minutes: [ago: number, refusals: number, peak: number][]
  /** Hashes of client addresses, and when each was last seen. */
  addresses: [hash: string, ago: number][]
  /** This process alone has counted more than its share of a threshold; otherwise it answers another one's. */
  isSuspect: boolean
}

/** Activities that processes which share a store report to each other. */
export interface ActivityStore {
  /**
   * Replaces what this process has reported, and gives what others have within an hour, in minutes ago of now, and the
   * number of processes.
   */
  exchange(own: readonly Activity[]): Promise<{ others: Activity[]; processes: number }>
}
