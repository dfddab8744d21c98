// The query parameters of each page: filters, tabs and opened items. All of them are text.

import { compact, oneOf, type Search, text } from "../address.ts"

export const RUN_STATUSES = ["pending", "running", "success", "failed", "cancelled"] as const
export const TRIGGERS = ["manual", "schedule", "webhook", "backfill", "workflow", "after", "path"] as const
export const JOB_STATUSES = ["PENDING", "READY", "RUNNING", "COMPLETED", "FAILED", "BLOCKED"] as const
export const PRIORITIES = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"] as const

export const workflowsSearch = (search: Search) => compact({ search: text(search["search"]), tag: text(search["tag"]) })

export const WORKFLOW_TABS = ["graph", "runs", "versions", "schedules", "params", "source"] as const
export const workflowSearch = (search: Search) =>
  compact({
    tab: oneOf(search["tab"], WORKFLOW_TABS),
    left: text(search["left"]),
    right: text(search["right"]),
  })

export const triggerSearch = (search: Search) => compact({ from: text(search["from"]) })

export const runsSearch = (search: Search) =>
  compact({
    workflow: text(search["workflow"]),
    status: oneOf(search["status"], RUN_STATUSES),
    trigger: oneOf(search["trigger"], TRIGGERS),
    after: text(search["after"]),
    before: text(search["before"]),
  })

export const RUN_TABS = ["steps", "graph", "timeline", "grid", "logs", "compare"] as const
export const runSearch = (search: Search) =>
  compact({
    tab: oneOf(search["tab"], RUN_TABS),
    /** The opened task, instance and attempt. */
    task: text(search["task"]),
    path: text(search["path"]),
    attempt: text(search["attempt"]),
    /** The run to compare with. */
    with: text(search["with"]),
  })

export const jobsSearch = (search: Search) =>
  compact({
    queue: text(search["queue"]),
    status: oneOf(search["status"], JOB_STATUSES),
    priority_min: oneOf(search["priority_min"], PRIORITIES),
    priority_max: oneOf(search["priority_max"], PRIORITIES),
    after: text(search["after"]),
    before: text(search["before"]),
  })

export const schedulesSearch = (search: Search) => compact({ view: oneOf(search["view"], ["day", "week"] as const) })

export const SYSTEM_TABS = ["charts", "audit", "keys"] as const
export const systemSearch = (search: Search) =>
  compact({ tab: oneOf(search["tab"], SYSTEM_TABS), range: oneOf(search["range"], ["1h", "6h", "24h"] as const) })
