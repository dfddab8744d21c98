// On SQLite a process is alive as long as it exists, however long its event loop is blocked. At the stall limit this guard declares it
// dead in its place, if there is another process that can take over its work.

import type { Store } from "../../contract/store.ts"
import { startLeaseGuard } from "../../shared/lease-guard.ts"
import type { LeaseGuardData } from "./lease-guard-thread.ts"

/** TypeScript in a checkout, JavaScript in the built package. */
const THREAD = new URL(import.meta.url.endsWith(".ts") ? "./lease-guard-thread.ts" : "./lease-guard-thread.js", import.meta.url)

export const leaseGuard =
  (path: string): NonNullable<Store["guardLease"]> =>
  (lease) => {
    const { id, leaseMs, stallMs } = lease
    const data: LeaseGuardData = { id, leaseMs, stallMs, path }
    return startLeaseGuard(THREAD, data, lease)
  }
