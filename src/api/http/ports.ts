// The parts of an API server. `buildServer` takes `ServerOptions`; every handler gets an `Api`. Handlers read the store directly and
// change it only through the services of the engine, which wake the loop.

import type { CustomFetch } from "openid-client"
import type { Logger } from "pino"
import type { Clock, Random, SecretSource } from "../../core/model/ports.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { Json } from "../../core/values/json.ts"
import type { OidcSettings } from "../../core/settings/oidc.ts"
import type { Policy } from "../../core/settings/policy.ts"
import type { WorkerProfiles } from "../../core/settings/worker-profiles.ts"
import type { Engine } from "../../engine/engine.ts"
import type { Services } from "../../engine/services/services.ts"
import type { WorkerService } from "../../engine/workers/worker-service.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { JobRow } from "../../store/contract/jobs.ts"
import type { LeaseHolderRow } from "../../store/contract/store.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import type { ApiKeys } from "../auth/api-keys.ts"
import type { AuditLog } from "../auth/audit-log.ts"
import type { Authenticator } from "../auth/authenticator.ts"
import type { Oidc } from "../auth/oidc.ts"
import type { SignIns } from "../auth/sign-ins.ts"
import type { EventFeed } from "../feed/event-feed.ts"
import type { Streams } from "../feed/streams.ts"

/** Members of the store that handlers may use. None of them changes anything. */
export const STORE_READS = [
  "kind",
  "usesLeases",
  "getVersion",
  "countRows",
  "getJob",
  "getQueue",
  "findPaths",
  "findRunId",
  "getRun",
  "getTask",
  "childOutputs",
  "isMessageUsed",
  "getWorkflow",
  "listAttempts",
  "listAudit",
  "listChanges",
  "listHolders",
  "listInstances",
  "listKeys",
  "listQueues",
  "listSteps",
  "listRuns",
  "listSchedules",
  "listTasks",
  "listTriggers",
  "listVersions",
  "listWorkflows",
  "nextTickMs",
  "searchJobs",
  "listSkippedTicks",
  "stats",
  "getTags",
  "workerToken",
] as const satisfies readonly (keyof ServerStore)[]

export type ReadStore = Pick<ServerStore, (typeof STORE_READS)[number]>

export interface Explanation {
  task: string | null
  path: string
  status: string
  sentence: string
}

/** Columns with one entry per minute, oldest first; the last one is the current minute. */
export interface ActivitySeries {
  from: number
  success: number[]
  failed: number[]
  dispatch_p50_ms: (number | null)[]
  dispatch_p95_ms: (number | null)[]
  ready: (number | null)[]
  running: (number | null)[]
}

/** Statistics that this server keeps about its own work. */
export interface ServerStats {
  columns(): Promise<ActivitySeries>
  endedPerMinute(queue: string): number
  /** Returns the bytes of all logs and outputs, or null when unknown. */
  objectsBytes(): Promise<number | null>
}

/** Parts that a server may lack. Routes that require a missing part are not mounted. */
export interface ApiParts {
  explain?: (runId: RunId, task?: string) => Promise<Explanation[]>
  explainJob?: (job: JobRow) => Promise<Explanation>
  /** Returns whether a holder that is not marked as dead is alive. */
  isHolderAlive?: (holder: LeaseHolderRow) => boolean
  /** Returns why this server cannot work at present, such as a full disk; null: it can. */
  problem?: () => Promise<string | null>
  /** Returns the metrics in Prometheus' text format. */
  metrics?: () => Promise<string>
  serverStats?: ServerStats
  /** Serves workers that connect to this server. */
  workers?: Pick<WorkerService, "register" | "heartbeat" | "claim" | "report" | "files" | "leave" | "reap">
  push?: PushReceiver
}

/** Accepts results of tasks that were pushed to workers, and lists these workers. */
export interface PushReceiver {
  /** Returns whether an attempt in flight has this token. */
  hasToken(token: string): boolean
  /** Resolves after the commit; with false when the token belongs to no attempt of the task in flight, or the result was rejected. */
  receive(result: PushedResult): Promise<boolean>
  list(): Promise<PushWorker[]>
}

export interface PushWorker {
  address: string
  /** Whether it responds now. */
  alive: boolean
  /** In milliseconds; null if it has not responded yet. */
  lastSeenAt: number | null
  running: number
}

/** Result of a task that was pushed to a worker. */
export interface PushedResult {
  taskId: string
  token: string
  state: "success" | "failed" | "lost"
  output: Json
  error: string | null
  exitCode: number | null
  /** Id that the worker gives itself; null without one. */
  workerId: string | null
  log: string
}

export interface ApiConfig {
  /** The server's own key: an admin key of at least 16 characters. */
  apiKey: string
  /** Key that the server created for its data folder, by which it proves its identity. Never a key that a person chose. */
  folderKey?: string
  version: string
  /** Profiles that `worker` of a task may name. Default: none. */
  profiles?: WorkerProfiles
  /** Policy about what tasks may use. Default: everything is allowed. */
  policy?: Policy
  /** Folder of the built web UI. Without it, the server has no web UI. */
  webUiDir?: string
  /** Wrong keys that one address may send in a minute before it has to wait. */
  failuresPerMinute?: number
  /** Proxies whose X-Forwarded-For and X-Forwarded-Proto the server believes: addresses and ranges, or true for every sender. */
  trustProxy?: boolean | string[]
  /** Address of the server for people, if it differs from the one that it listens at. */
  url?: string
  /** Names of the server besides the ones of this machine and of `url`. */
  hosts?: readonly string[]
  tls?: { cert: string; key: string }
  /** Time in which the headers of a request must arrive. */
  headersMs?: number
  /** Time in which a text body must arrive, and a part of an upload. */
  bodyMs?: number
  /** Sign-in of users. Without it, only keys sign in. */
  oidc?: OidcSettings
  /** Streams that one key or user may have open. */
  streamsPerCaller?: number
  heartbeatMs?: number
  /** Bytes that a slow reader of a stream may lag behind before the server cuts it off. */
  streamBuffer?: number
}

export interface ServerOptions extends ApiParts {
  engine: Pick<Engine, "onEvent" | "stalledMs">
  services: Services
  store: ServerStore
  objects: ObjectStore
  config: ApiConfig
  log: Logger
  clock: Clock
  random: Random
  /** Sends requests to the OpenID provider. Default: `fetch`. */
  oidcFetch?: CustomFetch
  /** Returns the value of a secret, or null when it is not set. Signatures of webhooks are checked with it. */
  secret: SecretSource
}

export interface Api extends Services {
  engine: Pick<Engine, "stalledMs">
  store: ReadStore
  objects: ObjectStore
  config: ApiConfig
  log: Logger
  clock: Clock
  random: Random
  parts: ApiParts
  secret: SecretSource
  startedAt: number
  auth: Authenticator
  keys: ApiKeys
  signIns: SignIns
  oidc: Oidc | null
  audit: AuditLog
  feed: EventFeed
  streams: Streams
}
