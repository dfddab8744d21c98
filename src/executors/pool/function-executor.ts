// Runs functions in warm worker processes, one task at a time each: the executors `node` and `python`, told apart by their runtime.
// One attempt: worker from the pool → frame → output, progress → end → worker back, or away with all that it started.
// A stop is SIGTERM to all processes of the worker, SIGKILL after the grace: a function that never looks at its signal ends at once.

import { resolve, sep } from "node:path"
import { messageOf } from "../../core/model/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { environmentProblem } from "../environment.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { currentOwner } from "../../objects/owner.ts"
import { taskEnvironment } from "../process/environment.ts"
import { HelperSupply } from "../process/helper-supply.ts"
import type { HelperChoice } from "../process/helper-supply.ts"
import { killAttempt } from "../process/leftovers.ts"
import { type StartedProcess, resultBase } from "../process/result.ts"
import { describeExit } from "../process/messages.ts"
import { stoppedResult } from "../stopped.ts"
import { AttemptOutput, failureOf, storeOutput } from "./attempt-output.ts"
import { factsOf, type TaskFrame } from "./frames.ts"
import { type GroupOptions, WorkerPool } from "./pool.ts"
import type { Runtime } from "./runtime.ts"
import { WorkerStarter } from "./worker-starter.ts"
import type { PoolWorker, TaskEnd } from "./worker.ts"

/** Between looks at processes that were told to end. */
const LOOK_MS = 5

export interface FunctionExecutorOptions extends HelperChoice {
  runtime: Runtime
  objects: ObjectStore
  clock: Clock
  /** Worker processes at most. */
  limit: number
  atOnce: number
  /** A worker process goes after so many tasks. */
  maxTasks: number
  /** An idle one after so long. */
  idleMs: number
}

export class FunctionExecutor implements Executor {
  readonly name: string
  readonly #options: FunctionExecutorOptions
  readonly #owner = currentOwner()
  readonly #supply: HelperSupply
  readonly #starter: WorkerStarter
  readonly #pool: WorkerPool

  constructor(options: FunctionExecutorOptions) {
    this.name = options.runtime.name
    this.#options = options
    this.#supply = new HelperSupply(options, this.#owner)
    this.#starter = new WorkerStarter(this.#supply, this.#owner)
    this.#pool = new WorkerPool(options)
  }

  async start(): Promise<void> {
    this.#starter.start()
    await this.#supply.get()
  }

  /** Ends every worker process. */
  async stop(): Promise<void> {
    await this.#pool.stop()
    await this.#supply.stop()
    this.#starter.stop()
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    const frame = this.#frame(assignment)
    if (typeof frame === "string") return { ...this.#unstarted(frame), retryable: false }
    const group = this.#group(assignment, frame)
    let worker: PoolWorker
    try {
      const given = signal.aborted ? null : this.#pool.acquire(group, signal)
      if (given === null) return this.#stopped(null, assignment, signal)
      worker = given instanceof Promise ? await given : given
    } catch (error) {
      if (signal.aborted) return this.#stopped(null, assignment, signal)
      return this.#unstarted(`could not start: ${messageOf(error)}`)
    }
    return this.#run(worker, group, frame, assignment, context)
  }

  /** What the worker is told; a text: what is wrong with it. */
  #frame(assignment: Assignment): TaskFrame | string {
    const { node } = assignment
    if (node.file === undefined) return "could not start: the task has no file"
    const root = resolve(assignment.code?.folder ?? assignment.workingDir)
    if (!resolve(root, node.file).startsWith(root + sep)) return `could not start: ${node.file} lies outside of ${root}`
    const places = { inputPath: null, outputPath: null, upstreamDir: assignment.upstreamDir, owner: this.#owner }
    const env = taskEnvironment(this.#starter.server, assignment, places)
    const problem = environmentProblem(
      Object.entries(env).map(([name, value]) => `${name}=${value}`),
      [],
    )
    if (problem !== null) return `could not start: ${problem}`
    return {
      root,
      file: node.file,
      function: node.function ?? null,
      cwd: assignment.workingDir,
      env,
      ...(assignment.code?.registered === true && { registered: true }),
      context: factsOf(assignment),
      input: assignment.input,
      maxOutputBytes: assignment.maxOutputBytes,
    }
  }

  /** A task with a user or limits of its own gets a worker of its own. */
  #group({ node, code, maxOutputBytes }: Assignment, { root }: TaskFrame): GroupOptions {
    const { runAs = "", resources = {} } = node
    const { memoryBytes = 0, cpu = 0 } = resources
    const wish = {
      runAs,
      memoryBytes,
      cpuMillis: Math.round(cpu * 1000),
      maxOutputBytes,
      cwd: root,
      runtime: this.#options.runtime,
    }
    return {
      name: `${root}\0${code?.bundle ?? ""}\0${runAs}\0${memoryBytes}\0${cpu}`,
      fixed: typeof code?.bundle === "string",
      single: node.runAs !== undefined || node.resources !== undefined,
      start: () => this.#starter.startWorker(wish),
    }
  }

  async #run(
    worker: PoolWorker,
    group: GroupOptions,
    frame: TaskFrame,
    assignment: Assignment,
    context: LaunchContext,
  ): Promise<AttemptResult> {
    const { clock } = this.#options
    const { signal } = context
    const begun: StartedProcess = { at: clock.now(), externalId: String(worker.pid) }
    context.started(begun)
    let told = false
    let cancelGrace = (): void => {}
    const onAbort = (): void => {
      told = true
      worker.terminate()
      cancelGrace = clock.after(assignment.graceMs, () => worker.kill())
    }
    signal.addEventListener("abort", onAbort, { once: true })
    if (signal.aborted) onAbort()
    const listener = new AttemptOutput(this.#options.objects, assignment, context)
    const end = await worker.run(frame, listener)
    // From here on it is a success or failure of its own; what the worker still does has to end within the grace all the same.
    const stopped = told
    signal.removeEventListener("abort", onAbort)
    const last = end.kind === "output" || end.kind === "error" ? end.last : false
    // What it started has the grace to end by SIGTERM, as it had.
    await this.#pool.release(group, worker, stopped || last ? assignment.graceMs : null)
    if (stopped || last || worker.dead) await this.#sweep(assignment.attemptId)
    cancelGrace()
    const problem = await listener.close()
    if (end.kind !== "lost" && stopped) return this.#stopped(begun, assignment, signal)
    const base = resultBase(begun, clock.now(), end.kind === "exited" ? end.exited : undefined)
    if (problem !== null) return { ...base, state: "failed", error: `its log could not be stored: ${problem}` }
    const result = await this.#result(base, end, assignment)
    await this.#pool.tell(group)
    return result
  }

  async #result(base: ReturnType<typeof resultBase>, end: TaskEnd, assignment: Assignment): Promise<AttemptResult> {
    switch (end.kind) {
      case "lost":
        return { ...base, state: "lost", error: end.reason }
      case "output": {
        const answer = await storeOutput(this.#options.objects, end.json, assignment)
        return "error" in answer
          ? { ...base, state: "failed", error: answer.error }
          : { ...base, state: "success", output: answer.output }
      }
      case "error":
        return { ...base, ...failureOf(end.error, assignment.secrets) }
      case "exited": {
        const how = describeExit(end.exited, assignment.node.resources?.memoryBytes ?? 0) ?? "exit code 0"
        return { ...base, state: "failed", error: `its worker process ended before the function did: ${how}` }
      }
      default:
        return end satisfies never
    }
  }

  /** A helper that cannot tell whose a process is has left those that went their own ways. */
  async #sweep(attemptId: string): Promise<void> {
    while (killAttempt(attemptId) > 0) await new Promise<void>((look) => this.#options.clock.after(LOOK_MS, look))
  }

  #stopped(begun: StartedProcess | null, assignment: Assignment, signal: AbortSignal): AttemptResult {
    return stoppedResult(signal.reason as StopReason, resultBase(begun, this.#options.clock.now()), assignment)
  }

  #unstarted(error: string): AttemptResult {
    return { ...resultBase(null, this.#options.clock.now()), state: "failed", error }
  }
}
