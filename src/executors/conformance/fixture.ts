// Shared by the conformance tests of executors: an executor with its own store, assignments, and the processes of a test.

import { readdirSync, readFileSync } from "node:fs"
import { randomBytes } from "node:crypto"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Json } from "../../core/values/json.ts"
import type { Clock } from "../../core/model/ports.ts"
import { node as nodeOf } from "../../core/testing.ts"
import type { Node } from "../../core/model/workflow.ts"
import { TaskLog } from "../../objects/logs/task-log.ts"
import type { LogLine } from "../../objects/logs/task-log.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { attemptPrefix } from "../../objects/objects.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"

export interface ExecutorFixture {
  executor: Executor
  objects: ObjectStore
  /** An empty folder for the test. */
  folder: string
  cleanup(): Promise<void>
}

export interface Capabilities {
  /** Peak memory and CPU time are measured. */
  usage: boolean
  /** Processes that left their session and cleared their environment are found. */
  scrubbed: boolean
  /** Tasks do not see the processes of the server. */
  hidden: boolean
  /** The error names the memory limit when a process was killed at it. */
  memoryKill: boolean
}

export const realClock: Clock = {
  now: () => Date.now(),
  monotonic: () => Date.now(),
  after: (ms, fn) => {
    const timer = setTimeout(fn, ms)
    return () => clearTimeout(timer)
  },
}

const NODE = nodeOf("task", {
  retry: { maxAttempts: 1, backoff: "fixed", baseDelayMs: 0, maxDelayMs: 0, jitter: false },
  lostRetries: 0,
  timeoutMs: 60_000,
  startTimeoutMs: null,
})

export type Overrides = Partial<Omit<Assignment, "node">> & { node?: Partial<Node> }

export const uniqueId = (): string => randomBytes(8).toString("hex")

export const assignment = (folder: string, command: Assignment["command"], { node, ...rest }: Overrides = {}): Assignment => {
  const attemptId = rest.attemptId ?? `attempt-${uniqueId()}`
  return {
    runId: "run-1",
    taskId: "task-1",
    attemptId,
    attempt: 1,
    workflow: "conformance",
    task: "task",
    path: "",
    parallelIndex: null,
    parallelCount: null,
    logicalDate: null,
    node: { ...NODE, ...node },
    input: { greeting: "hello" },
    fields: {},
    command,
    env: {},
    baseDir: folder,
    workingDir: folder,
    upstreamDir: null,
    prefix: attemptPrefix("run-1", "task", attemptId),
    maxOutputBytes: 4 << 20,
    graceMs: 10_000,
    secrets: [],
    ...rest,
  }
}

export interface Launched {
  result: Promise<AttemptResult>
  started: Promise<{ at: number; externalId?: string }>
  log: TaskLog
  /** Details of the progress that it has reported. */
  details: Json[]
  /** Resolves with the first line that contains `text`, while the task runs. */
  line(text: string): Promise<LogLine>
  stop(reason: StopReason): void
}

export const launch = ({ executor, objects }: ExecutorFixture, work: Assignment): Launched => {
  const controller = new AbortController()
  const ended = new AbortController()
  const started = Promise.withResolvers<{ at: number; externalId?: string }>()
  const log = new TaskLog(objects, work.prefix)
  const details: Json[] = []
  const progress: LaunchContext["progress"] = (update) => void details.push(update.details ?? null)
  const context = { signal: controller.signal, started: started.resolve, progress }
  const result = executor.launch(work, context)
  void result.finally(() => ended.abort())
  return {
    result,
    started: started.promise,
    log,
    details,
    line: async (text) => {
      for await (const line of log.lines({ ended: ended.signal })) if (line.line.includes(text)) return line
      throw new Error(`the task ended without the line ${text}: ${JSON.stringify(await result)}`)
    },
    stop: (reason) => controller.abort(reason),
  }
}

export const allLines = async (log: TaskLog): Promise<LogLine[]> => {
  const all: LogLine[] = []
  for await (const line of log.lines()) all.push(line)
  return all
}

/** Returns the pids of running processes (no zombies) with the mark in their environment or arguments. */
export const marked = (mark: string, except: number[] = []): number[] =>
  readdirSync("/proc").flatMap((name) => {
    if (!/^[0-9]+$/.test(name) || except.includes(Number(name))) return []
    const read = (file: string): string => {
      try {
        return readFileSync(`/proc/${name}/${file}`, "latin1")
      } catch {
        return ""
      }
    }
    const stat = read("stat")
    const dead = stat === "" || stat.slice(stat.lastIndexOf(")") + 2).startsWith("Z")
    return !dead && (read("environ").includes(mark) || read("cmdline").includes(mark)) ? [Number(name)] : []
  })
