// Types of requests and responses, from the schemas of this folder. Types only, so that the web UI bundles no schema.

import type { z } from "zod"
import type * as artifacts from "./artifacts.ts"
import type * as common from "./common.ts"
import type * as functions from "./functions.ts"
import type * as jobs from "./jobs.ts"
import type * as runs from "./runs.ts"
import type * as runViews from "./run-views.ts"
import type * as service from "./service.ts"
import type * as streams from "./streams.ts"
import type * as workflows from "./workflows.ts"

export type Run = z.output<typeof runs.run>
export type RunGraph = z.output<typeof runViews.runGraph>
export type InstanceSummary = z.output<typeof runViews.instance>
export type Grid = z.output<typeof runViews.grid>
export type Task = z.output<typeof runs.task>
export type Attempt = Task["attempts"][number]
export type Step = z.output<typeof functions.step>
export type Artifacts = z.output<typeof artifacts.artifactList>
export type NewRun = z.input<typeof runs.newRun>
export type RunQuery = z.input<typeof runs.runQuery>
/** The task or step at which a retry begins. Default: every task that did not succeed. */
export type RetryStart = Pick<z.input<typeof runs.retryBody>, "from" | "step">
export type RetryPlan = z.output<typeof runs.retryPlan>
export type Explanation = z.output<typeof runs.explanation>
export type Workflow = z.output<typeof workflows.workflow>
export type NewFunctionSchedule = z.input<typeof workflows.functionSchedule>
export type WorkflowSummary = z.output<typeof workflows.workflowSummary>
export type WorkflowVersion = z.output<typeof workflows.version>
export type Validation = z.output<typeof workflows.validation>
export type Backfill = z.output<typeof workflows.backfill>
export type Schedule = z.output<typeof workflows.schedule>
export type Job = z.output<typeof jobs.job>
export type NewJob = z.input<typeof jobs.newJob>
export type NewJobQuery = z.input<typeof jobs.newJobQuery>
export type JobQuery = z.input<typeof jobs.jobQuery>
export type JobResult = z.output<typeof jobs.jobResult>
export type Queue = z.output<typeof service.queue>
export type QueueSettings = z.input<typeof service.queueSettings>
export type Worker = z.output<typeof service.worker>
export type AuditEntry = z.output<typeof service.auditEntry>
export type Change = z.output<typeof service.change>
export type Key = z.output<typeof service.key>
export type NewKey = z.input<typeof service.newKey>
export type CreatedKey = z.output<typeof service.createdKey>
export type KeyScope = Key["scopes"][number]
export type SignInMethods = z.output<typeof service.signInMethods>
export type Session = z.output<typeof service.session>
export type Stats = z.output<typeof service.stats>
export type Event = z.output<typeof streams.event>
export type LogLine = z.output<typeof streams.logLine>
export type Problem = z.output<typeof common.problem>

export interface Page<Item> {
  items: Item[]
  next_cursor: string | null
  has_more: boolean
}
