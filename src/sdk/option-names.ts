// Names of the options of the SDK. Types reject a misspelt name; JavaScript would pass it on, and nobody would read it.

import { nearest } from "../core/values/nearest.ts"
import type { LimitOptions, RetryOptions, TaskOptions, WorkflowOptions } from "./definitions.ts"
import type { ApprovalOptions, StepOptions } from "./durable/step-tools.ts"
import type { RetentionOptions } from "./embedded/retention-limits.ts"
import type { EventOptions } from "./events.ts"
import type { GraphOptions } from "./graph/graph.ts"
import type { ClientOptions } from "./client.ts"
import type { OrkOptions } from "./ork.ts"
import type {
  AnswerOptions,
  ListOptions,
  ResultOptions,
  RetryWorkOptions,
  ScheduleOptions,
  TransactionOptions,
} from "./orkable.ts"
import type { TestOptions } from "./test.ts"
import type { WorkerSettings } from "./worker-settings.ts"

/** Has every name, so that an option of the type is never unknown here. */
type Names<Options> = { readonly [Name in keyof Required<Options>]: true }

const namesOf = <Options>(names: Names<Options>): readonly string[] => Object.keys(names)

export const ENQUEUE = namesOf<Omit<TransactionOptions, "tx">>({
  key: true,
  onConflict: true,
  delay: true,
  at: true,
  priority: true,
})
export const ENQUEUE_IN_TRANSACTION = [...ENQUEUE, "tx"]
export const RESULT = namesOf<ResultOptions>({ timeout: true, signal: true })
export const RETRY_WORK = namesOf<RetryWorkOptions>({ from: true })
export const LIST = namesOf<ListOptions>({ def: true, status: true })
export const EVENTS = namesOf<EventOptions>({ work: true, def: true, after: true, signal: true })
export const SIGNAL = namesOf<{ key?: string }>({ key: true })
export const ANSWER = namesOf<AnswerOptions>({ comment: true, path: true })
export const SCHEDULE = namesOf<ScheduleOptions>({ timezone: true, catchup: true, overlap: true })
export const OPEN = namesOf<OrkOptions>({
  database: true,
  run: true,
  concurrency: true,
  stallLimit: true,
  retention: true,
  objects: true,
  name: true,
  log: true,
})
export const TEST = namesOf<TestOptions>({ run: true, now: true, seed: true, log: true })
export const RETENTION = namesOf<RetentionOptions>({ days: true, runs: true })
export const CLIENT = namesOf<ClientOptions>({ url: true, key: true, fetch: true })
export const WORKER = namesOf<WorkerSettings>({
  server: true,
  apiKey: true,
  functions: true,
  handlers: true,
  queues: true,
  labels: true,
  capacity: true,
  name: true,
  graceMs: true,
  stallLimit: true,
  dataDir: true,
  log: true,
  signal: true,
})
export const RETRY = namesOf<RetryOptions>({ attempts: true, delay: true, maxDelay: true, backoff: true, jitter: true })
export const LIMIT = namesOf<LimitOptions>({ concurrency: true, perGroup: true, rate: true })
export const WORKFLOW = namesOf<WorkflowOptions<undefined>>({
  input: true,
  queue: true,
  version: true,
  priority: true,
  retry: true,
  timeout: true,
})
export const TASK = [
  ...WORKFLOW,
  ...namesOf<Omit<TaskOptions<undefined, unknown>, keyof WorkflowOptions<undefined>>>({
    expires: true,
    group: true,
    limit: true,
  }),
]
export const GRAPH = namesOf<GraphOptions<undefined>>({
  params: true,
  description: true,
  tags: true,
  timeout: true,
  concurrency: true,
  maxActiveRuns: true,
  priority: true,
})
export const STEP = namesOf<StepOptions>({ retry: true })
export const WAIT = namesOf<{ timeout?: unknown }>({ timeout: true })
export const CALL = namesOf<{ name?: string }>({ name: true })
export const APPROVAL = namesOf<ApprovalOptions>({ message: true, timeout: true, default: true })

/** Throws a TypeError for what is no object, and for an option that does not exist. `what`: the call that got the options. */
export const checkNames = (options: object, known: readonly string[], what: string): void => {
  const given: unknown = options
  if (typeof given !== "object" || given === null) throw new TypeError(`${what}: the options must be an object, such as {}`)
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || known.includes(name)) continue
    const near = nearest(name, known)
    const hint = near === undefined ? "" : `; did you mean ${near}?`
    throw new TypeError(`${what}: there is no option ${name}${hint} (the options are ${known.join(", ")})`)
  }
}
