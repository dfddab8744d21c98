// The conformance suite of stores: `storeSuite("sqlite", open)`. A backend declares its differences through what `open`
// returns (see `Opened`) and through `store.leases`.

import { describe } from "vitest"
import type { ServerStore } from "../contract/server-store.ts"
import { attemptTests } from "./tasks/attempts.ts"
import { cancelTests } from "./runs/cancel.ts"
import { catalogTests } from "./admin/catalog.ts"
import { claimTests } from "./claims/claims.ts"
import { closeTests } from "./runs/close.ts"
import { dependsOnPastTests } from "./runs/depends-on-past.ts"
import { eventLogTests } from "./admin/event-log.ts"
import { functionTests } from "./tasks/functions.ts"
import { fanOutTests } from "./tasks/fan-out.ts"
import { gateTests } from "./tasks/gate.ts"
import { groupTimeoutTests } from "./groups/group-timeouts.ts"
import { groupPropertyTests } from "./groups/group-property.ts"
import { groupTests } from "./groups/groups.ts"
import { leaseHolderTests } from "./claims/lease-holders.ts"
import { statsTests } from "./reads/stats.ts"
import { jobChangeTests } from "./jobs/job-changes.ts"
import { jobPropertyTests } from "./jobs/job-property.ts"
import { jobSettingTests } from "./jobs/job-settings.ts"
import { jobSearchTests } from "./jobs/job-search.ts"
import { jobTests } from "./jobs/jobs.ts"
import { keyTests } from "./admin/keys.ts"
import { limitTests } from "./claims/limits.ts"
import { listTests } from "./reads/lists.ts"
import { notificationTests } from "./admin/notifications.ts"
import { taskNotificationTests } from "./admin/task-notifications.ts"
import { claimUnblockedTests } from "./claims/claim-unblocked.ts"
import { orderTests } from "./claims/order.ts"
import { runViewTests } from "./reads/run-view.ts"
import { propertyTests } from "./runs/property.ts"
import { callTests } from "./claims/function-lanes.ts"
import { queueTests } from "./claims/queues.ts"
import { readTests } from "./reads/reads.ts"
import { retryRunTests } from "./runs/retry-run.ts"
import { runTests } from "./runs/runs.ts"
import { scheduleTests } from "./admin/schedules.ts"
import { pathTriggerTests } from "./admin/path-triggers.ts"
import { triggerTests } from "./admin/triggers.ts"
import { waitingTests } from "./tasks/waiting.ts"
import { wakeTests } from "./claims/wakes.ts"
import { workerTests } from "./claims/workers.ts"
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
    triggerTests(open)
    pathTriggerTests(open)
    dependsOnPastTests(open)
    listTests(open)
    queueTests(open)
    callTests(open)
    statsTests(open)
    runViewTests(open)
    jobTests(open)
    jobChangeTests(open)
    jobSettingTests(open)
    jobSearchTests(open)
    jobPropertyTests(open)
    notificationTests(open)
    taskNotificationTests(open)
    functionTests(open)
  })
}

/** Wake-ups of other processes; `open` returns `wakes`. */
export const wakeSuite = (name: string, open: Open<ServerStore>): void => {
  describe(`the wake-ups of ${name}`, () => wakeTests(open))
}
