// What an API server is made of. `buildServer` takes the options; every handler gets the `Api`.

import type { Logger } from "pino"
import type { Clock, Random, SecretSource } from "../../core/model/ports.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { Json } from "../../core/model/json.ts"
import type { RetryPlan, RetryRequest } from "../../core/rules/retry-plan.ts"
import type { WorkerProfiles } from "../../core/settings/worker-profiles.ts"
import type { ExternalSignals } from "../../engine/waiting/external-signals.ts"
import type { TriggerRequest } from "../../engine/engine.ts"
import type { Listener } from "../../engine/loop/events.ts"
import type { WorkerDesk } from "../../engine/workers/worker-service.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { RunRow } from "../../store/contract/store.ts"
import type { Audit } from "../auth/audit.ts"
import type { Authenticator } from "../auth/authenticator.ts"
import type { EventFeed } from "../streams/event-feed.ts"
import type { SignIns } from "../auth/sign-ins.ts"
import type { Streams } from "../streams/streams.ts"

/** What the API asks of the engine. */
export interface ApiEngine {
  trigger(request: TriggerRequest): Promise<RunRow>
  cancel(runId: RunId): Promise<void>
  pause(runId: RunId, paused: boolean): Promise<void>
  planRetry(runId: RunId, request: RetryRequest): Promise<Exclude<RetryPlan, { problem: string }>>
  retry(runId: RunId, request: RetryRequest): Promise<void>
  readonly externalSignals: Pick<ExternalSignals, "approval" | "callback">
  onEvent(listener: Listener): () => void
}

export interface Explanation {
  task: string | null
  path: string
  status: string
  sentence: string
}

export interface BackfillRequest {
  workflow: string
  from: string
  to: string
  plan: boolean
  maxActiveRuns: number | null
}

/** What this server counted of its own work. */
export interface Figures {
  /** One entry a minute, oldest first. */
  columns(): {
    from: number
    success: number[]
    failed: number[]
    dispatch_p50_ms: (number | null)[]
    dispatch_p95_ms: (number | null)[]
    ready: (number | null)[]
    running: (number | null)[]
  }
  endedPerMinute(queue: string): number
  /** What logs and outputs take; null: not known. */
  objectsBytes(): Promise<number | null>
}

/** Parts that a server may have; the routes of a part that is missing are not there. */
export interface ApiParts {
  explain?: (runId: RunId, task?: string) => Promise<Explanation[]>
  backfill?: (request: BackfillRequest) => Promise<{ ticks: string[]; runs: string[] }>
  /** In Prometheus' text format. */
  metrics?: () => Promise<string>
  figures?: Figures
  /** Serves the workers that ask this server. */
  workers?: Pick<WorkerDesk, "register" | "heartbeat" | "claim" | "report" | "appendLogs" | "putOutput" | "upstream" | "leave">
  /** Takes the results of workers that are pushed to; false: the token is not that of a live attempt. */
  push?: (result: PushedResult) => boolean
}

/** How a task ended that was pushed to a worker. */
export interface PushedResult {
  taskId: string
  token: string
  state: "success" | "failed" | "lost"
  output: Json
  error: string | null
  exitCode: number | null
  log: string
}

export interface ApiConfig {
  /** The server's own key, 16 characters or more: an admin key. */
  apiKey: string
  version: string
  /** Run folders lie below it. */
  dataDir: string
  /** What `worker` of a task may name; nothing by default. */
  profiles?: WorkerProfiles
  /** Where the built web page lies; without it there is none. */
  pageDir?: string
  /** Wrong keys from one address in a minute before it has to wait. */
  failuresPerMinute?: number
  /** Behind a proxy that sets X-Forwarded-For and -Proto. */
  trustProxy?: boolean
  heartbeatMs?: number
  /** Bytes that a slow reader of a stream may lag behind before it is cut off. */
  streamBuffer?: number
}

export interface ServerOptions extends ApiParts {
  engine: ApiEngine
  store: ServerStore
  objects: ObjectStore
  config: ApiConfig
  log: Logger
  clock: Clock
  random: Random
  /** The value of a secret, or null: for the signatures of webhooks. */
  secret: SecretSource
  /** Wakes the engine after a change that it did not make itself (a job, a queue). */
  wake(): void
}

export interface Api {
  engine: ApiEngine
  store: ServerStore
  objects: ObjectStore
  config: ApiConfig
  log: Logger
  clock: Clock
  random: Random
  parts: ApiParts
  secret: SecretSource
  wake(): void
  startedAt: number
  auth: Authenticator
  signIns: SignIns
  audit: Audit
  feed: EventFeed
  streams: Streams
}
