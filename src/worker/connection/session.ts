// One registration of the worker: its id and token, from the time that it was registered until it left or was given up on.

import type { registered } from "../../protocol/api/workers.ts"
import type { z } from "zod"

export class Registration {
  readonly id: string
  readonly token: string
  readonly leaseMs: number
  readonly heartbeatMs: number
  readonly #over = new AbortController()

  constructor({ id, token, lease_ms, heartbeat_ms }: z.output<typeof registered>) {
    this.id = id
    this.token = token
    this.leaseMs = lease_ms
    this.heartbeatMs = heartbeat_ms
  }

  /** Aborted when nothing under this id counts any more. */
  get ended(): AbortSignal {
    return this.#over.signal
  }

  end(): void {
    this.#over.abort()
  }
}
