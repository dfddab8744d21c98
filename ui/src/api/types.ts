// The API's types, under the names of the UI. Types only: no server code is bundled.

export type { JobStatus } from "../../../src/core/rules/jobs/jobs.ts"
export type { Json, JsonObject } from "../../../src/core/values/json.ts"
export type { AttemptState, RunStatus, TaskStatus } from "../../../src/core/model/status.ts"
export type * from "../../../src/protocol/api/types.ts"
export type { Event as OrkEvent, KeyScope as Scope } from "../../../src/protocol/api/types.ts"
