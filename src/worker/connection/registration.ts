// Registers the worker at the first of its servers that takes it. One that refuses is passed over; when all of them refuse, a worker that
// has just been started is told why, and one that has worked before tries again: its key may be on its way back.

import type { ServerClient } from "./server-client.ts"
import { ServerError } from "./server-error.ts"
import { Registration } from "./session.ts"
import type { Logger } from "../../engine/ports.ts"
import type { newWorker, registered } from "../../protocol/api/workers.ts"
import type { z } from "zod"

/** Of `Link.pause`: the longest wait. */
const LONG = 10

export interface RegistrationOptions {
  link: ServerClient
  key: string
  body: z.input<typeof newWorker>
  log: Logger
  /** Aborted: it is not wanted any more. */
  signal: AbortSignal
  /** Throws when every server refuses. */
  first: boolean
}

/** null: not wanted any more. */
export const register = async ({ link, key, body, log, signal, first }: RegistrationOptions): Promise<Registration | null> => {
  let refusals = 0
  for (let failures = 0; ;) {
    try {
      const made = await link.json<z.output<typeof registered>>({ path: "/workers", key, body, signal })
      log.info({ worker: made.id, server: link.server }, "registered")
      return new Registration(made)
    } catch (error) {
      if (signal.aborted) return null
      if (!(error instanceof ServerError)) throw error
      if (!error.rejected) {
        if (failures === 0) log.warn({ error: error.message }, "no server takes this worker yet; trying again")
        await link.backOff(failures++, signal)
        continue
      }
      refusals += 1
      link.useNextServer()
      if (refusals < link.serverCount) continue
      if (first) throw error
      log.error({ error: error.message }, "every server refuses this worker; trying again")
      await link.backOff(LONG, signal)
      refusals = 0
    }
  }
}
