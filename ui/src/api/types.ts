// The API's shapes, as the server's own schemas say them. Types only: nothing of the server is in the page's code.

import type { z } from "zod"
import type * as service from "../../../src/protocol/api/service.ts"
import type * as streams from "../../../src/protocol/api/streams.ts"

export type {
  CreatedKey,
  Explanation,
  Job,
  JobQuery,
  JobResult,
  Key,
  LogLine,
  NewJob,
  NewRun,
  Page,
  Problem,
  Queue,
  QueueSettings,
  RetryPlan,
  Run,
  RunQuery,
  Schedule,
  Scope,
  Stats,
  Task,
  Worker,
  Workflow,
  WorkflowSummary,
  WorkflowVersion,
} from "../../../src/protocol/client.ts"
export type { JobStatus } from "../../../src/core/jobs.ts"
export type { Json, JsonObject } from "../../../src/core/json.ts"
export type { AttemptState, RunStatus, TaskStatus } from "../../../src/core/status.ts"

export type Session = z.output<typeof service.session>
export type AuditEntry = z.output<typeof service.auditEntry>
export type OrkEvent = z.output<typeof streams.event>
