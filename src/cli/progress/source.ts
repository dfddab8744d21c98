// Data that progress reporting reads in addition to a run's events.

export interface ProgressSource {
  /** Returns the mean duration in seconds of one instance of each task in earlier runs, by task name. */
  pastDurations(workflow: string): Promise<ReadonlyMap<string, number>>
  /** Returns the last log line of a running attempt; null if it has written none. */
  lastLine(task: string, path: string, attempt: number): Promise<string | null>
  /** Returns the last log lines of the latest attempt. */
  tailLines(task: string, path: string): Promise<string[]>
}
