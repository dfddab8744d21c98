// The thread of lease-guard.ts. Connects to the database when the event loop is blocked for the first time, and keeps that connection.

import { workerData } from "node:worker_threads"
import type { GuardedLease } from "../../contract/store.ts"
import { watchMainThread } from "../../shared/lease-guard.ts"
import type { Target } from "../connection/connection.ts"

export interface LeaseGuardData extends Pick<GuardedLease, "id" | "leaseMs" | "stallMs"> {
  target: Target
}

const { id, leaseMs, stallMs, target } = workerData as LeaseGuardData

/** Loads the modules on first use: most programs never block for so long. */
const connect = async (): Promise<() => Promise<void>> => {
  const { ConnectionPool } = await import("../connection/connection-pool.ts")
  const { renewLease } = await import("./lease-holders.ts")
  const { bindNow } = await import("../tx.ts")
  const pool = new ConnectionPool(target, 1, { application: "ork lease" })
  return async () => {
    await pool.transaction((transaction) => renewLease(bindNow(transaction, null), id, leaseMs))
  }
}

let renewal: Promise<() => Promise<void>> | null = null

watchMainThread(
  { leaseMs, stallMs },
  {
    blocked: async () => await (await (renewal ??= connect()))(),
    // The lease expires.
    stalled: async () => false,
  },
)
