// The executors `node` and `python`, which differ in their runtime: run functions in warm worker processes, one task at a time
// each. One attempt: acquire a worker → send the task → receive output and progress → end → return or retire the worker. A stop
// sends SIGTERM to all processes of the worker, and SIGKILL after the grace period; a function that does not use its signal is
// killed at once.

import { resolve, sep } from "node:path"
import { messageOf } from "../../core/values/error-message.ts"
import { sleep } from "../../sleep.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { allowsRoot } from "../../core/rules/access/policy.ts"
import { environmentProblem } from "../environment.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { currentOwner } from "../../objects/owner.ts"
import type { Python } from "../interpreter/python.ts"
import { type Pythons, selectsPython } from "../interpreter/pythons.ts"
import { taskEnvironment } from "../process/environment.ts"
import { HelperSupplies } from "../process/helper-supply.ts"
import type { HelperChoice } from "../process/helper-supply.ts"
import { killAttempt } from "../process/orphans.ts"
import { type StartedProcess, resultBase } from "../process/result.ts"
import { describeExit } from "../process/messages.ts"
import { taskCommands } from "../process/task-commands.ts"
import { stoppedResult } from "../stopped.ts"
import { AttemptOutput, failureOf, storeOutput } from "./attempt-output.ts"
import { taskInfoOf, type TaskFrame } from "./frames.ts"
import { type PoolOptions, type WorkerSetOptions, WorkerPool } from "./pool.ts"
import type { Runtime } from "./runtime.ts"
import { WorkerStarter } from "./worker-starter.ts"
import type { PoolWorker, TaskEnd } from "./worker.ts"

/** Interval between kills of processes that are left. */
const KILL_POLL_MS = 5

export interface PoolExecutorOptions extends HelperChoice, PoolOptions {
  runtime: Runtime
  objects: ObjectStore
  /** Required by the runtime of Python. */
  pythons?: Pythons
}

interface RunningFunction {
  worker: PoolWorker
  set: WorkerSetOptions
  frame: TaskFrame
  assignment: Assignment
  context: LaunchContext
}

export class PoolExecutor implements Executor {
  readonly name: string
  readonly #options: PoolExecutorOptions
  readonly #owner = currentOwner()
  readonly #supplies: HelperSupplies
  readonly #starter: WorkerStarter
  readonly #pool: WorkerPool

  constructor(options: PoolExecutorOptions) {
    this.name = options.runtime.name
    this.#options = options
    this.#supplies = new HelperSupplies(options, this.#owner)
    this.#starter = new WorkerStarter(this.#owner)
    this.#pool = new WorkerPool(options)
  }

  async start(): Promise<void> {
    this.#starter.start()
    await this.#supplies.standard.get()
  }

  /** Ends every worker process. */
  async stop(): Promise<void> {
    await this.#pool.stop()
    await this.#supplies.stop()
    this.#starter.stop()
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    const { pythons } = this.#options
    let frame: TaskFrame
    let set: WorkerSetOptions
    let worker: PoolWorker
    try {
      const supply = this.#supplies.of(assignment)
      const python =
        pythons !== undefined && selectsPython(assignment.node)
          ? await pythons.find(assignment, taskCommands(supply, this.#starter.server, assignment), signal)
          : null
      const built = this.#frame(assignment, python)
      if (typeof built === "string") return { ...this.#notStarted(`could not start: ${built}`), retryable: false }
      frame = built
      if (signal.aborted) return this.#stopped(null, assignment, signal)
      set = this.#workerSet(assignment, frame, python)
      supply.prepareFolder(assignment.workingDir, assignment.node.runAs)
      const acquired = this.#pool.acquire(set, signal)
      worker = acquired instanceof Promise ? await acquired : acquired
    } catch (error) {
      if (signal.aborted) return this.#stopped(null, assignment, signal)
      return this.#notStarted(`could not start: ${messageOf(error)}`)
    }
    return this.#run({ worker, set, frame, assignment, context })
  }

  /** Builds the frame of a task. Returns a string that says why it cannot be run. */
  #frame(assignment: Assignment, python: Python | null): TaskFrame | string {
    const { node } = assignment
    if (node.file === undefined) return "the task has no file"
    const root = resolve(assignment.code?.folder ?? assignment.workingDir)
    if (!resolve(root, node.file).startsWith(root + sep)) return `${node.file} is outside of ${root}`
    const { upstreamDir, artifactsDir } = assignment
    const paths = { inputPath: null, outputPath: null, upstreamDir, artifactsDir, owner: this.#owner, python }
    const env = taskEnvironment(this.#starter.server, assignment, paths)
    const problem = environmentProblem(
      Object.entries(env).map(([name, value]) => `${name}=${value}`),
      [],
    )
    if (problem !== null) return problem
    return {
      root,
      file: node.file,
      function: node.function ?? null,
      cwd: assignment.workingDir,
      env,
      ...(assignment.code?.registered === true && { registered: true }),
      context: taskInfoOf(assignment),
      maxOutputBytes: assignment.maxOutputBytes,
    }
  }

  /**
   * Returns the set of workers that may run the task. Workflows share no worker, because code that a task leaves running can
   * read what the next one has; neither do tasks with different Pythons. A task with a user or limits has a worker of its own.
   */
  #workerSet(assignment: Assignment, { root, file }: TaskFrame, python: Python | null): WorkerSetOptions {
    const { workflow, node, code, maxOutputBytes, policy } = assignment
    const { runtime } = this.#options
    const { runAs = "", resources = {} } = node
    const { memoryBytes = 0, cpu = 0 } = resources
    const request = {
      runAs,
      notRoot: policy !== undefined && !allowsRoot(policy),
      memoryBytes,
      cpuMillis: Math.round(cpu * 1000),
      maxOutputBytes,
      cwd: root,
      runtime,
      python,
      supply: this.#supplies.of(assignment),
    }
    return {
      name: [
        workflow,
        root,
        runtime.codeKey(file),
        python?.program,
        code?.bundle,
        runAs,
        memoryBytes,
        cpu,
        policy?.sandbox,
      ].join("\0"),
      fixed: typeof code?.bundle === "string",
      single: node.runAs !== undefined || node.resources !== undefined,
      start: () => this.#starter.startWorker(request),
    }
  }

  async #run({ worker, set, frame, context, ...running }: RunningFunction): Promise<AttemptResult> {
    const { clock } = this.#options
    for (const secret of running.assignment.secrets) worker.secrets.add(secret)
    const assignment = { ...running.assignment, secrets: [...worker.secrets] }
    const { signal } = context
    const started: StartedProcess = { at: clock.now(), externalId: String(worker.pid) }
    context.started(started)
    let stopRequested = false
    let cancelKill = (): void => {}
    const onAbort = (): void => {
      stopRequested = true
      worker.terminate()
      cancelKill = clock.after(assignment.graceMs, () => worker.kill())
    }
    signal.addEventListener("abort", onAbort, { once: true })
    if (signal.aborted) onAbort()
    const listener = new AttemptOutput(this.#options.objects, assignment, context)
    const end = await worker.run(frame, assignment, listener)
    // A later stop does not change the result; processes that the function left still have the grace period to end.
    const stopped = stopRequested
    signal.removeEventListener("abort", onAbort)
    const retire = stopped || ((end.kind === "output" || end.kind === "error") && end.retire)
    await this.#pool.returnWorker(set, worker, retire ? assignment.graceMs : null)
    if (retire || worker.dead) await this.#killLeftovers(assignment.attemptId)
    cancelKill()
    const logProblem = await listener.close()
    if (end.kind !== "lost" && stopped) return this.#stopped(started, assignment, signal)
    const base = resultBase(started, clock.now(), end.kind === "exited" ? end.exited : undefined)
    if (logProblem !== null) return { ...base, state: "failed", error: `its log could not be stored: ${logProblem}` }
    const result = await this.#result(base, end, assignment)
    await this.#pool.reportReady(set)
    return result
  }

  async #result(base: ReturnType<typeof resultBase>, end: TaskEnd, assignment: Assignment): Promise<AttemptResult> {
    switch (end.kind) {
      case "lost":
        return { ...base, state: "lost", error: end.reason }
      case "output": {
        const output = await storeOutput(this.#options.objects, end.json, assignment)
        return "error" in output
          ? { ...base, state: "failed", error: output.error }
          : { ...base, state: "success", output: output.output }
      }
      case "error":
        return { ...base, ...failureOf(end.error, assignment.secrets) }
      case "exited": {
        const { resources, runAs = "" } = assignment.node
        const task = { memoryBytes: resources?.memoryBytes ?? 0, runAs, taskUser: this.#supplies.of(assignment).taskUser }
        const exit = describeExit(end.exited, task) ?? "exit code 0"
        return { ...base, state: "failed", error: `its worker process ended before the function did: ${exit}` }
      }
      default:
        return end satisfies never
    }
  }

  /** Kills processes that left their session, which the helper in JavaScript does not find. */
  async #killLeftovers(attemptId: string): Promise<void> {
    const { clock } = this.#options
    while (killAttempt(attemptId) > 0) await sleep(clock, KILL_POLL_MS)
  }

  #stopped(started: StartedProcess | null, assignment: Assignment, signal: AbortSignal): AttemptResult {
    return stoppedResult(signal.reason as StopReason, resultBase(started, this.#options.clock.now()), assignment)
  }

  #notStarted(error: string): AttemptResult {
    return { ...resultBase(null, this.#options.clock.now()), state: "failed", error }
  }
}
