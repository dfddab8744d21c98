// Changes of queue settings on behalf of people.

import type { QueueRow, QueueSettings, QueueStore } from "../../store/contract/queues.ts"

export interface QueueServiceOptions {
  store: Pick<QueueStore, "putQueue">
  wake(): void
}

export class QueueService {
  readonly #options: QueueServiceOptions

  constructor(options: QueueServiceOptions) {
    this.#options = options
  }

  /** Changes the given settings and keeps the others. Wakes the loop also on error: the commit may have succeeded. */
  update(name: string, settings: Partial<QueueSettings>): Promise<QueueRow> {
    return this.#options.store.putQueue(name, settings).finally(this.#options.wake)
  }
}
