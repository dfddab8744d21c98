// The jobs and executions of the fake: tasks are processes of this machine, shown as Cloud Run shows them.

import { type ChildProcess, spawn } from "node:child_process"
import { createInterface } from "node:readline"
import type { Readable } from "node:stream"
import type { Stream } from "./fake-logging.ts"

export interface EnvVar {
  name: string
  value?: string
}

export interface Container {
  name?: string
  image: string
  args?: string[]
  env?: EnvVar[]
}

export interface FakeJob {
  name: string
  /** The image's program, to which arguments are appended. */
  entrypoint: string[]
  container: Container
}

export interface Overrides {
  taskCount?: number
  timeout?: string
  containerOverrides?: { name?: string; args?: string[]; clearArgs?: boolean; env?: EnvVar[] }[]
}

interface TaskEnd {
  exitCode: number
  termSignal: number
  message: string
}

const SIGNALS: { [name: string]: number } = { SIGTERM: 15, SIGKILL: 9, SIGSEGV: 11 }
/** Time between SIGTERM and SIGKILL, which is 10 s on Cloud Run. */
const GRACE_MS = 500

const iso = (ms: number): string => new Date(ms).toISOString()

export interface ExecutionHost {
  now(): number
  onLine(execution: string, stream: Stream, line: string): void
}

export class FakeExecution {
  readonly name: string
  readonly createTime: number
  /** Everything that its process wrote. */
  written = ""
  child: ChildProcess | null = null
  readonly #job: FakeJob
  readonly overrides: Overrides
  #startTime: number | null = null
  #completionTime: number | null = null
  #taskEnd: TaskEnd | null = null
  #cancelled = false
  #killTimer: NodeJS.Timeout | null = null
  readonly #host: ExecutionHost

  constructor(name: string, job: FakeJob, overrides: Overrides, host: ExecutionHost) {
    this.name = name
    this.#host = host
    this.createTime = host.now()
    this.#job = job
    this.overrides = overrides
  }

  get env(): EnvVar[] {
    const override = this.overrides.containerOverrides?.[0]
    const merged = new Map([...(this.#job.container.env ?? []), ...(override?.env ?? [])].map((one) => [one.name, one]))
    return [...merged.values()]
  }

  get args(): string[] {
    const override = this.overrides.containerOverrides?.[0]
    if (override?.clearArgs === true) return []
    return override?.args ?? this.#job.container.args ?? []
  }

  get over(): boolean {
    return this.#completionTime !== null
  }

  start(): void {
    const [program = "true", ...rest] = [...this.#job.entrypoint, ...this.args]
    const env = Object.fromEntries(this.env.map(({ name, value = "" }) => [name, value]))
    const own = { PATH: process.env["PATH"], CLOUD_RUN_EXECUTION: this.name.split("/").at(-1), CLOUD_RUN_TASK_INDEX: "0" }
    this.child = spawn(program, rest, { env: { ...own, ...env }, stdio: ["ignore", "pipe", "pipe"], detached: true })
    this.#startTime = this.#host.now()
    this.#listen("stdout", this.child.stdout!)
    this.#listen("stderr", this.child.stderr!)
    this.child.on("error", () => this.#end({ exitCode: 127, termSignal: 0, message: "The container failed to start." }))
    // "close" comes after the end of both streams.
    this.child.on("close", (code, signal) =>
      this.#end({
        exitCode: code ?? 0,
        termSignal: signal === null ? 0 : (SIGNALS[signal] ?? 1),
        message: code === 0 ? "" : "The container exited with an error.",
      }),
    )
  }

  #listen(stream: Stream, from: Readable): void {
    createInterface({ input: from }).on("line", (line) => {
      this.written += `${line}\n`
      this.#host.onLine(this.name, stream, line)
    })
  }

  cancel(): void {
    this.#cancelled = true
    if (this.child === null) return this.#end({ exitCode: 0, termSignal: 0, message: "" })
    this.kill("SIGTERM")
    this.#killTimer = setTimeout(() => this.kill("SIGKILL"), GRACE_MS)
  }

  kill(signal: NodeJS.Signals): void {
    if (this.child?.pid === undefined || this.over) return
    try {
      process.kill(-this.child.pid, signal)
    } catch {
      // The process has ended.
    }
  }

  #end(taskEnd: TaskEnd): void {
    if (this.over) return
    if (this.#killTimer !== null) clearTimeout(this.#killTimer)
    this.#taskEnd = taskEnd
    this.#completionTime = this.#host.now()
  }

  /** Returns the execution as the API shows it. */
  toJSON(): object {
    const ended = this.#taskEnd !== null
    const ok = ended && !this.#cancelled && this.#taskEnd?.exitCode === 0 && this.#taskEnd.termSignal === 0
    const failed = ended && !ok && !this.#cancelled
    const project = this.name.split("/")[1]
    return {
      name: this.name,
      uid: `uid-${this.name.split("/").at(-1)}`,
      generation: "1",
      job: this.#job.name,
      createTime: iso(this.createTime),
      ...(this.#startTime !== null && { startTime: iso(this.#startTime) }),
      ...(this.#completionTime !== null && { completionTime: iso(this.#completionTime) }),
      parallelism: 1,
      taskCount: this.overrides.taskCount ?? 1,
      template: {
        containers: [{ ...this.#job.container, args: this.args, env: this.env }],
        maxRetries: 0,
        timeout: this.overrides.timeout ?? "600s",
      },
      reconciling: !ended,
      conditions: [this.#completed(ok, failed)],
      runningCount: this.#startTime !== null && !ended ? 1 : 0,
      succeededCount: ok ? 1 : 0,
      failedCount: failed ? 1 : 0,
      cancelledCount: ended && this.#cancelled ? 1 : 0,
      logUri: `https://console.cloud.google.com/logs/viewer?project=${project}&execution=${this.name.split("/").at(-1)}`,
      etag: '"1"',
    }
  }

  #completed(ok: boolean, failed: boolean): object {
    if (this.#taskEnd === null) {
      return { type: "Completed", state: "CONDITION_RECONCILING", message: "Waiting for execution to complete." }
    }
    if (ok) return { type: "Completed", state: "CONDITION_SUCCEEDED" }
    return {
      type: "Completed",
      state: "CONDITION_FAILED",
      message: failed ? "Task failed with message: The container exited with an error." : "Execution was cancelled.",
      executionReason: failed ? "NON_ZERO_EXIT_CODE" : "CANCELLED",
    }
  }

  task(): object {
    const { exitCode = 0, termSignal = 0, message = "" } = this.#taskEnd ?? {}
    return {
      name: `${this.name}/tasks/${this.name.split("/").at(-1)}-task0`,
      execution: this.name,
      job: this.#job.name,
      index: 0,
      retried: 0,
      ...(this.over && { lastAttemptResult: { exitCode, termSignal, status: { code: exitCode === 0 ? 0 : 2, message } } }),
    }
  }
}
