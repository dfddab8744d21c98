// The conformance suite of stores: `storeSuite("sqlite", open)`. A backend declares its differences through what `open`
// returns (see `Opened`) and through `store.leases`.

import { describe } from "vitest"
import type { ServerStore } from "../contract/server-store.ts"
import { attemptTests } from "./attempts.ts"
import { cancelTests } from "./cancel.ts"
import { catalogTests } from "./catalog.ts"
import { claimTests } from "./claims.ts"
import { closeTests } from "./close.ts"
import { eventLogTests } from "./event-log.ts"
import { fanOutTests } from "./fan-out.ts"
import { gateTests } from "./gate.ts"
import { groupTimeoutTests } from "./group-timeouts.ts"
import { groupPropertyTests } from "./group-property.ts"
import { groupTests } from "./groups.ts"
import { leaseHolderTests } from "./lease-holders.ts"
import { statsTests } from "./stats.ts"
import { jobChangeTests } from "./job-changes.ts"
import { jobPropertyTests } from "./job-property.ts"
import { jobSearchTests } from "./job-search.ts"
import { jobTests } from "./jobs.ts"
import { keyTests } from "./keys.ts"
import { limitTests } from "./limits.ts"
import { listTests } from "./lists.ts"
import { notificationTests } from "./notifications.ts"
import { claimUnblockedTests } from "./claim-unblocked.ts"
import { orderTests } from "./order.ts"
import { runViewTests } from "./run-view.ts"
import { propertyTests } from "./property.ts"
import { callTests } from "./calls.ts"
import { queueTests } from "./queues.ts"
import { readTests } from "./reads.ts"
import { retryRunTests } from "./retry-run.ts"
import { runTests } from "./runs.ts"
import { scheduleTests } from "./schedules.ts"
import { waitingTests } from "./waiting.ts"
import { workerTests } from "./workers.ts"
import type { Open } from "./world.ts"

export const storeSuite = (name: string, open: Open): void => {
  describe(`the store on ${name}`, () => {
    claimTests(open)
    attemptTests(open)
    gateTests(open)
    waitingTests(open)
    fanOutTests(open)
    groupTests(open)
    groupTimeoutTests(open)
    limitTests(open)
    orderTests(open)
    claimUnblockedTests(open)
    runTests(open)
    cancelTests(open)
    closeTests(open)
    retryRunTests(open)
    leaseHolderTests(open)
    workerTests(open)
    readTests(open)
    propertyTests(open)
    groupPropertyTests(open)
  })
}

/** Operations that only servers use. */
export const serverSuite = (name: string, open: Open<ServerStore>): void => {
  describe(`the server's store on ${name}`, () => {
    keyTests(open)
    eventLogTests(open)
    catalogTests(open)
    scheduleTests(open)
    listTests(open)
    queueTests(open)
    callTests(open)
    statsTests(open)
    runViewTests(open)
    jobTests(open)
    jobChangeTests(open)
    jobSearchTests(open)
    jobPropertyTests(open)
    notificationTests(open)
  })
}
