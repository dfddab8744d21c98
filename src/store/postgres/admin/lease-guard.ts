// Renews the lease of this process while its event loop is blocked, up to the stall limit. Then the lease expires by itself.

import type { Store } from "../../contract/store.ts"
import { startLeaseGuard } from "../../shared/lease-guard.ts"
import type { Target } from "../connection/connection.ts"
import type { LeaseGuardData } from "./lease-guard-thread.ts"

/** TypeScript in a checkout, JavaScript in the built package. */
const THREAD = new URL(import.meta.url.endsWith(".ts") ? "./lease-guard-thread.ts" : "./lease-guard-thread.js", import.meta.url)

export const leaseGuard =
  (target: Target): NonNullable<Store["guardLease"]> =>
  (lease) => {
    const { id, leaseMs, stallMs } = lease
    const data: LeaseGuardData = { id, leaseMs, stallMs, target }
    return startLeaseGuard(THREAD, data, lease)
  }
