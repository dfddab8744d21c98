// Every store is held to this suite: `storeSuite("sqlite", open)`. Differences between backends are declared by what `open`
// gives (see `Opened`) and by `store.leases`.

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
import { holderTests } from "./lease-holders.ts"
import { insightTests } from "./stats.ts"
import { jobChangeTests } from "./job-changes.ts"
import { jobPropertyTests } from "./job-property.ts"
import { jobSearchTests } from "./job-search.ts"
import { jobTests } from "./jobs.ts"
import { keyTests } from "./keys.ts"
import { limitTests } from "./limits.ts"
import { listTests } from "./lists.ts"
import { noticeTests } from "./notifications.ts"
import { onwardTests } from "./claim-unblocked.ts"
import { orderTests } from "./order.ts"
import { pictureTests } from "./run-view.ts"
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
    onwardTests(open)
    runTests(open)
    cancelTests(open)
    closeTests(open)
    retryRunTests(open)
    holderTests(open)
    workerTests(open)
    readTests(open)
    propertyTests(open)
    groupPropertyTests(open)
  })
}

/** What a server asks for beyond the loop. */
export const serverSuite = (name: string, open: Open<ServerStore>): void => {
  describe(`the server's store on ${name}`, () => {
    keyTests(open)
    eventLogTests(open)
    catalogTests(open)
    scheduleTests(open)
    listTests(open)
    queueTests(open)
    callTests(open)
    insightTests(open)
    pictureTests(open)
    jobTests(open)
    jobChangeTests(open)
    jobSearchTests(open)
    jobPropertyTests(open)
    noticeTests(open)
  })
}
