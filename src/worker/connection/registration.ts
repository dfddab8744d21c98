// Registers the worker at the first server that accepts it.

import type { ServerClient } from "./server-client.ts"
import { isRejected } from "./server-error.ts"
import { ClientError } from "../../protocol/client/errors.ts"
import type { Logger } from "../../engine/ports.ts"
import { type newWorker, PROTOCOL, type registeredWorker } from "../../protocol/api/workers.ts"
import type { z } from "zod"

/** One registration of the worker: from its acceptance until the worker deregisters or is evicted. */
export class Registration {
  readonly id: string
  readonly token: string
  readonly leaseMs: number
  readonly heartbeatMs: number
  /** The servers let reports claim tasks. */
  readonly reportsMayClaim: boolean
  readonly #ended = new AbortController()

  constructor({ id, token, lease_ms, heartbeat_ms, protocol = 1 }: z.output<typeof registeredWorker>) {
    this.id = id
    this.token = token
    this.leaseMs = lease_ms
    this.heartbeatMs = heartbeat_ms
    this.reportsMayClaim = protocol >= PROTOCOL
  }

  /** Signal that aborts when the registration is not valid any more. */
  get ended(): AbortSignal {
    return this.#ended.signal
  }

  end(): void {
    this.#ended.abort()
  }
}

/** Argument of `ServerClient.backOff` for the longest delay. */
const LONGEST_BACKOFF = 10

export interface RegistrationOptions {
  client: ServerClient
  key: string
  body: z.input<typeof newWorker>
  log: Logger
  /** Aborts when the registration is not needed any more. */
  signal: AbortSignal
  /** True: throws if every server rejects the worker. False: retries, because its key may become valid again. */
  first: boolean
  /** Returns whether a server may get the key; default: every server may. */
  proves?(server: string): Promise<boolean>
}

/** Returns null if `signal` aborts. */
export const register = async (options: RegistrationOptions): Promise<Registration | null> => {
  const { client, key, body, log, signal, first, proves } = options
  let rejections = 0
  for (let failures = 0; ;) {
    if (proves !== undefined && !(await proves(client.server))) {
      if (signal.aborted) return null
      client.useNextServer()
      await client.backOff(failures++, signal)
      continue
    }
    try {
      const response = await client.json<z.output<typeof registeredWorker>>({ path: "/workers", key, body, signal })
      log.info({ worker: response.id, server: client.server }, "registered")
      return new Registration(response)
    } catch (error) {
      if (signal.aborted) return null
      if (!(error instanceof ClientError)) throw error
      if (!isRejected(error)) {
        if (failures === 0) log.warn({ error: error.message }, "failed to register at any server; trying again")
        await client.backOff(failures++, signal)
        continue
      }
      rejections += 1
      client.useNextServer()
      if (rejections < client.serverCount) continue
      if (first) throw error
      log.error({ error: error.message }, "every server rejects this worker; trying again")
      await client.backOff(LONGEST_BACKOFF, signal)
      rejections = 0
    }
  }
}
