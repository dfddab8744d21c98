// The API's types, taken from the server's schemas. Types only: no server code is bundled.

import type { z } from "zod"
import type * as artifacts from "../../../src/protocol/api/artifacts.ts"
import type * as common from "../../../src/protocol/api/common.ts"
import type * as functions from "../../../src/protocol/api/functions.ts"
import type * as jobs from "../../../src/protocol/api/jobs.ts"
import type * as pictures from "../../../src/protocol/api/run-views.ts"
import type * as runs from "../../../src/protocol/api/runs.ts"
import type * as service from "../../../src/protocol/api/service.ts"
import type * as streams from "../../../src/protocol/api/streams.ts"
import type * as workflows from "../../../src/protocol/api/workflows.ts"

export type { JobStatus } from "../../../src/core/rules/jobs/jobs.ts"
export type { Json, JsonObject } from "../../../src/core/values/json.ts"
export type { AttemptState, RunStatus, TaskStatus } from "../../../src/core/model/status.ts"

export interface Page<Item> {
  items: Item[]
  next_cursor: string | null
  has_more: boolean
}

export type Run = z.output<typeof runs.run>
export type Task = z.output<typeof runs.task>
export type Attempt = Task["attempts"][number]
export type Artifacts = z.output<typeof artifacts.artifactList>
export type Step = z.output<typeof functions.step>
export type RunGraph = z.output<typeof pictures.runGraph>
export type InstanceSummary = z.output<typeof pictures.instance>
export type Grid = z.output<typeof pictures.grid>
export type NewRun = z.input<typeof runs.newRun>
export type RetryStart = Pick<z.input<typeof runs.retryBody>, "from" | "step">
export type RetryPlan = z.output<typeof runs.retryPlan>
export type Explanation = z.output<typeof runs.explanation>
export type Workflow = z.output<typeof workflows.workflow>
export type WorkflowSummary = z.output<typeof workflows.workflowSummary>
export type WorkflowVersion = z.output<typeof workflows.version>
export type Schedule = z.output<typeof workflows.schedule>
export type Job = z.output<typeof jobs.job>
export type NewJob = z.input<typeof jobs.newJob>
export type JobResult = z.output<typeof jobs.jobResult>
export type Queue = z.output<typeof service.queue>
export type QueueSettings = z.input<typeof service.queueSettings>
export type Worker = z.output<typeof service.worker>
export type Key = z.output<typeof service.key>
export type CreatedKey = z.output<typeof service.createdKey>
export type NewKey = z.input<typeof service.newKey>
export type Scope = Key["scopes"][number]
export type Stats = z.output<typeof service.stats>
export type SignInMethods = z.output<typeof service.signInMethods>
export type Session = z.output<typeof service.session>
export type Change = z.output<typeof service.change>
export type AuditEntry = z.output<typeof service.auditEntry>
export type OrkEvent = z.output<typeof streams.event>
export type LogLine = z.output<typeof streams.logLine>
export type Problem = z.output<typeof common.problem>
