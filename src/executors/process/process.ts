// The process executor starts commands by a small spawn helper, never from Ork itself: a large process spawns slowly. The
// helper writes logs, kills what a task leaves behind, and dies with Ork together with all tasks. One attempt: request →
// supervise (start, stop) → exit → output → result.

import { rm, writeFile } from "node:fs/promises"
import { constants } from "node:os"
import { join } from "node:path"
import { messageOf } from "../../core/values/error-message.ts"
import { sleep } from "../../sleep.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import { allowsRoot } from "../../core/rules/access/policy.ts"
import { MAX_LOG_BYTES } from "../../objects/logs/log-keys.ts"
import { LogUpload } from "../../objects/logs/log-upload.ts"
import { maskValues } from "../../objects/mask.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type Environment, environmentProblem } from "../environment.ts"
import { argvOf, type Assignment, type Executor, type LaunchContext, type StopReason } from "../executor.ts"
import { inputText } from "../input.ts"
import { currentOwner } from "../../objects/owner.ts"
import { stoppedResult } from "../stopped.ts"
import type { Python } from "../interpreter/python.ts"
import { Pythons, selectsPython } from "../interpreter/pythons.ts"
import { AttemptFiles } from "./attempt-files.ts"
import { serverEnvironment, taskEnvironment } from "./environment.ts"
import { HelperSupplies } from "./helper-supply.ts"
import type { HelperChoice, ProcessDescription } from "./helper-supply.ts"
import type { Helper } from "./helper.ts"
import { killAttempt, killOrphans } from "./orphans.ts"
import { outputTarget } from "../output.ts"
import { reportedOutput } from "./output.ts"
import type { Exited, StartRequest } from "./protocol.ts"
import { resultBase, type StartedProcess } from "./result.ts"
import { describeExit, describeLog, describeStartFailure } from "./messages.ts"
import { taskCommands } from "./task-commands.ts"

export type { ProcessDescription } from "./helper-supply.ts"

export interface ProcessExecutorOptions extends HelperChoice {
  objects: ObjectStore
  clock: Clock
  dataDir: string
}

/** Larger inputs are written to their file by Ork, so that frames stay small. */
const MAX_FRAME_INPUT = 1 << 20
/** Interval between kills of processes whose helper has died. */
const KILL_POLL_MS = 5

const { SIGTERM, SIGKILL } = constants.signals

interface Starter {
  helper: Helper
  /** User of tasks without `run_as`; "" for the user of Ork. */
  taskUser: string
  python: Python | null
}

interface RunningProcess extends Starter {
  request: StartRequest
  assignment: Assignment
  signal: AbortSignal
  started: StartedProcess | null
  /** Uploads the log while it is written; null when the object store is local. */
  upload: LogUpload | null
}

export class ProcessExecutor implements Executor {
  readonly name = "process"
  readonly #objects: ObjectStore
  readonly #clock: Clock
  readonly #owner = currentOwner()
  readonly #supplies: HelperSupplies
  readonly #files: AttemptFiles
  readonly #pythons: Pythons
  /** Uploads of logs that are being finished. */
  readonly #storing = new Set<Promise<void>>()
  #server: Environment = {}

  constructor(options: ProcessExecutorOptions) {
    this.#objects = options.objects
    this.#clock = options.clock
    this.#supplies = new HelperSupplies(options, this.#owner)
    this.#files = new AttemptFiles(options.dataDir)
    this.#pythons = new Pythons(options.dataDir, options.objects)
  }

  async start(): Promise<void> {
    this.#server = serverEnvironment(process.env)
    killOrphans()
    this.#files.start()
    await this.#supplies.standard.get()
  }

  /** Kills every process of every task. */
  async stop(): Promise<void> {
    await this.#supplies.stop()
    await Promise.allSettled(this.#storing)
    this.#files.stop()
  }

  describe(): Promise<ProcessDescription> {
    return this.#supplies.standard.describe()
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    try {
      const supply = this.#supplies.of(assignment)
      const helper = supply.ready ?? (await supply.get())
      const python = selectsPython(assignment.node)
        ? await this.#pythons.find(assignment, taskCommands(supply, this.#server, assignment), signal)
        : null
      if (signal.aborted) return this.#stopped(assignment, signal)
      supply.prepareFolder(assignment.workingDir, assignment.node.runAs)
      return await this.#run({ helper, taskUser: supply.taskUser, python }, assignment, context)
    } catch (error) {
      if (signal.aborted) return this.#stopped(assignment, signal)
      return this.#notStarted(`could not run: ${messageOf(error)}`)
    }
  }

  async #run(starter: Starter, assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const input = assignment.inputFiles === undefined ? JSON.stringify(assignment.input) : null
    const request = this.#request(assignment, input?.length ?? Number.POSITIVE_INFINITY, starter)
    const problem = request.argv[0] ? environmentProblem(request.env, request.argv) : "the task has no command"
    if (problem !== null) return { ...this.#notStarted(`could not start: ${problem}`), retryable: false }
    if (input !== null && input.length <= MAX_FRAME_INPUT)
      return this.#supervise(starter, { ...request, input }, assignment, context)
    try {
      await writeFile(request.stdinPath, input ?? inputText(assignment), { mode: 0o600 })
      return await this.#supervise(starter, request, assignment, context)
    } finally {
      await rm(request.stdinPath, { force: true })
    }
  }

  #request(assignment: Assignment, inputLength: number, { taskUser, python }: Starter): StartRequest {
    const { attemptId, prefix, node, command, policy } = assignment
    const paths = this.#files.paths(attemptId, inputLength, node.runAs ?? (taskUser || undefined))
    const env = taskEnvironment(this.#server, assignment, {
      inputPath: paths.input,
      outputPath: paths.output,
      upstreamDir: assignment.upstreamDir,
      artifactsDir: assignment.artifactsDir,
      owner: this.#owner,
      python,
    })
    return {
      argv: argvOf(command),
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      cwd: assignment.workingDir,
      stdinPath: paths.input,
      logPath: this.#objects.localPath ? this.#objects.localPath(`${prefix}log`) : join(paths.folder, `${attemptId}.log`),
      outputPath: paths.output,
      runAs: node.runAs ?? "",
      notRoot: policy !== undefined && !allowsRoot(policy),
      homeOfUser: assignment.env["HOME"] === undefined,
      input: null,
      memoryBytes: node.resources?.memoryBytes ?? 0,
      cpuMillis: Math.round((node.resources?.cpu ?? 0) * 1000),
      secrets: maskValues(assignment.secrets),
      pipes: "",
      maxLogBytes: assignment.maxLogBytes ?? MAX_LOG_BYTES,
    }
  }

  #supervise(starter: Starter, request: StartRequest, assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    const { helper, taskUser } = starter
    const running: RunningProcess = { ...starter, request, assignment, signal, started: null, upload: null }
    return new Promise((resolve) => {
      let cancelKill: (() => void) | null = null
      const onAbort = (): void => {
        helper.kill(id, SIGTERM)
        cancelKill = this.#clock.after(assignment.graceMs, () => helper.kill(id, SIGKILL))
      }
      const end = (result: AttemptResult | Promise<AttemptResult>): void => {
        signal.removeEventListener("abort", onAbort)
        cancelKill?.()
        resolve(result)
      }
      const id = helper.run(request, {
        started: (pid) => {
          running.started = { at: this.#clock.now(), externalId: String(pid) }
          if (this.#objects.localPath === undefined) {
            running.upload = new LogUpload(this.#objects, assignment.prefix, request.logPath)
          }
          context.started(running.started)
        },
        failed: (failed) => end(this.#notStarted(describeStartFailure(failed, { ...request, taskUser }))),
        exited: (exited) => end(this.#exited(running, exited)),
        lost: (reason) => end(this.#lost(running, reason)),
      })
      if (signal.aborted) onAbort()
      else signal.addEventListener("abort", onAbort, { once: true })
    })
  }

  async #exited(running: RunningProcess, exited: Exited): Promise<AttemptResult> {
    const { started, upload, request, assignment, signal, taskUser } = running
    const base = resultBase(started, this.#clock.now(), exited)
    try {
      if (upload !== null) await this.#storeLog(upload)
      if (exited.stopRequested) return withLog(stoppedResult(signal.reason as StopReason, base, assignment), exited)
      const error = describeExit(exited, { ...request, taskUser })
      if (error !== null) return { ...base, state: "failed", error }
      const reading = reportedOutput(exited, request.outputPath, outputTarget(this.#objects, assignment))
      const output = reading instanceof Promise ? await reading : reading
      return "error" in output
        ? { ...base, state: "failed", error: output.error }
        : { ...base, state: "success", output: output.output }
    } catch (error) {
      return { ...base, state: "failed", error: `its output or log could not be stored: ${messageOf(error)}` }
    } finally {
      // The helper has removed an output file that it sent inline.
      const left = exited.outputErrno !== 0 || (exited.outputSize > 0 && exited.inlineOutput?.from !== "output")
      if (left) await rm(request.outputPath, { recursive: true, force: true }).catch(() => undefined)
    }
  }

  async #lost({ helper, started, upload, assignment }: RunningProcess, reason: string): Promise<AttemptResult> {
    // Without a namespace, the task may outlive its helper.
    while (!helper.hello.namespace && killAttempt(assignment.attemptId) > 0) {
      await sleep(this.#clock, KILL_POLL_MS)
    }
    // A log that cannot be stored must not hide the reason.
    if (upload !== null) await this.#storeLog(upload).catch(() => undefined)
    return { ...resultBase(started, this.#clock.now()), state: "lost", error: reason }
  }

  async #storeLog(upload: LogUpload): Promise<void> {
    const storing = upload.close()
    this.#storing.add(storing)
    try {
      await storing
    } finally {
      this.#storing.delete(storing)
    }
  }

  #stopped(assignment: Assignment, signal: AbortSignal): AttemptResult {
    return stoppedResult(signal.reason as StopReason, resultBase(null, this.#clock.now()), assignment)
  }

  #notStarted(error: string): AttemptResult {
    return { ...resultBase(null, this.#clock.now()), state: "failed", error }
  }
}

/** Adds to the error that the log is incomplete. */
const withLog = (result: AttemptResult, exited: Exited): AttemptResult => {
  const log = describeLog(exited)
  return log === null ? result : { ...result, error: `${result.error} (${log})` }
}
