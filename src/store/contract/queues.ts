// Settings of queues: concurrency, rate and pause. A claim reads them for its lanes.

export interface QueueSettings {
  /** null: no limit. */
  concurrency: number | null
  rate: { limit: number; periodMs: number } | null
  paused: boolean
}

export interface QueueRow extends QueueSettings {
  name: string
  ready: number
  running: number
  /** Age of the oldest ready task, or null. */
  oldestReadyMs: number | null
}

export interface QueueStore {
  getQueue(name: string): Promise<QueueRow | null>
  listQueues(): Promise<QueueRow[]>
  putQueue(name: string, settings: Partial<QueueSettings>): Promise<QueueRow>
}
