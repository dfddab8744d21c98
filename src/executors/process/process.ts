// The process executor: runs commands through a small spawn helper, never by spawning from Ork itself (a large process spawns
// slowly). The helper writes logs, ends what a task leaves behind, and dies with Ork together with all of its tasks.
// One attempt: request → supervise (started, stop) → ended → output → result.

import { rm, writeFile } from "node:fs/promises"
import { constants } from "node:os"
import { join } from "node:path"
import { messageOf } from "../../core/model/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import { LogUpload } from "../../objects/logs/log-upload.ts"
import { maskValues } from "../../objects/mask.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { type Environment, environmentProblem } from "../environment.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { currentOwner } from "../../objects/owner.ts"
import { stoppedResult } from "../stopped.ts"
import { AttemptFiles } from "./attempt-files.ts"
import { serverEnvironment, taskEnvironment } from "./environment.ts"
import { HelperSupply } from "./helper-supply.ts"
import type { HelperChoice, ProcessDescription } from "./helper-supply.ts"
import type { Helper } from "./helper.ts"
import { killAttempt, killLeftovers } from "./leftovers.ts"
import { readOutput, removeOutput } from "./output.ts"
import type { Exited, StartRequest } from "./protocol.ts"
import { resultBase } from "./result.ts"
import type { Begun } from "./result.ts"
import { exitInWords, failedInWords } from "./messages.ts"

export type { ProcessDescription } from "./helper-supply.ts"

export interface ProcessExecutorOptions extends HelperChoice {
  objects: ObjectStore
  clock: Clock
  dataDir: string
}

/** Inputs above this are written by Ork, so that frames stay small. */
const MAX_FRAME_INPUT = 1 << 20
/** Between looks at processes whose helper has died. */
const LOOK_MS = 5

const { SIGTERM, SIGKILL } = constants.signals

export class ProcessExecutor implements Executor {
  readonly name = "process"
  readonly #objects: ObjectStore
  readonly #clock: Clock
  readonly #owner = currentOwner()
  readonly #supply: HelperSupply
  readonly #files: AttemptFiles
  /** Logs that are being handed over to a store elsewhere. */
  readonly #storing = new Set<Promise<void>>()
  #server: Environment = {}

  constructor(options: ProcessExecutorOptions) {
    this.#objects = options.objects
    this.#clock = options.clock
    this.#supply = new HelperSupply(options, this.#owner)
    this.#files = new AttemptFiles(options.dataDir)
  }

  async start(): Promise<void> {
    this.#server = serverEnvironment(process.env)
    killLeftovers()
    this.#files.start()
    await this.#supply.get()
  }

  /** Ends every process of every task. */
  async stop(): Promise<void> {
    await this.#supply.stop()
    await Promise.allSettled(this.#storing)
    this.#files.stop()
  }

  describe(): Promise<ProcessDescription> {
    return this.#supply.describe()
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    try {
      const helper = this.#supply.ready ?? (await this.#supply.get())
      const { signal } = context
      if (signal.aborted) return stoppedResult(signal.reason as StopReason, resultBase(null, this.#clock.now()), assignment)
      return await this.#run(helper, assignment, context)
    } catch (error) {
      return this.#unstarted(`could not run: ${messageOf(error)}`)
    }
  }

  async #run(helper: Helper, assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const input = JSON.stringify(assignment.input)
    const request = this.#request(assignment, input.length)
    const problem = request.argv[0] ? environmentProblem(request.env, request.argv) : "the task has no command"
    if (problem !== null) return { ...this.#unstarted(`could not start: ${problem}`), retryable: false }
    if (input.length <= MAX_FRAME_INPUT) return this.#supervise(helper, { ...request, input }, assignment, context)
    await writeFile(request.stdinPath, input, { mode: 0o600 })
    try {
      return await this.#supervise(helper, request, assignment, context)
    } finally {
      await rm(request.stdinPath, { force: true })
    }
  }

  #request(assignment: Assignment, inputLength: number): StartRequest {
    const { attemptId, prefix, node, command } = assignment
    const paths = this.#files.paths(attemptId, inputLength, node.runAs)
    const env = taskEnvironment(this.#server, assignment, {
      inputPath: paths.input,
      outputPath: paths.output,
      upstreamDir: assignment.upstreamDir,
      owner: this.#owner,
    })
    return {
      argv: command === null ? [] : "argv" in command ? command.argv : ["/bin/sh", "-c", command.shell],
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      cwd: assignment.workingDir,
      stdinPath: paths.input,
      logPath: this.#objects.localPath ? this.#objects.localPath(`${prefix}log`) : join(paths.folder, `${attemptId}.log`),
      outputPath: paths.output,
      runAs: node.runAs ?? "",
      homeOfUser: node.runAs !== undefined && assignment.env["HOME"] === undefined,
      input: null,
      memoryBytes: node.resources?.memoryBytes ?? 0,
      cpuMillis: Math.round((node.resources?.cpu ?? 0) * 1000),
      secrets: maskValues(assignment.secrets),
    }
  }

  #supervise(helper: Helper, request: StartRequest, assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    return new Promise((resolve) => {
      let begun: Begun | null = null
      let cancelGrace: (() => void) | null = null
      let upload: LogUpload | null = null
      const onAbort = (): void => {
        helper.kill(id, SIGTERM)
        cancelGrace = this.#clock.after(assignment.graceMs, () => helper.kill(id, SIGKILL))
      }
      const end = (result: AttemptResult | Promise<AttemptResult>): void => {
        signal.removeEventListener("abort", onAbort)
        cancelGrace?.()
        resolve(result)
      }
      const id = helper.run(request, {
        started: (pid) => {
          begun = { at: this.#clock.now(), externalId: String(pid) }
          if (this.#objects.localPath === undefined) {
            upload = new LogUpload(this.#objects, assignment.prefix, request.logPath)
          }
          context.started(begun)
        },
        failed: (failed) => end(this.#unstarted(failedInWords(failed, request))),
        exited: (exited) => end(this.#ended(exited, begun, upload, request, assignment, signal)),
        lost: (reason) => end(this.#lost(reason, begun, upload, helper, assignment)),
      })
      if (signal.aborted) onAbort()
      else signal.addEventListener("abort", onAbort, { once: true })
    })
  }

  async #ended(
    exited: Exited,
    begun: Begun | null,
    upload: LogUpload | null,
    request: StartRequest,
    assignment: Assignment,
    signal: AbortSignal,
  ): Promise<AttemptResult> {
    const base = resultBase(begun, this.#clock.now(), exited)
    const { prefix, maxOutputBytes, secrets } = assignment
    try {
      if (upload !== null) await this.#storeLog(upload)
      if (exited.told) return stoppedResult(signal.reason as StopReason, base, assignment)
      const error = exitInWords(exited, request.memoryBytes)
      if (error !== null) return { ...base, state: "failed", error }
      const place = { objects: this.#objects, prefix, maxBytes: maxOutputBytes, secrets }
      const reading = readOutput(exited, request.outputPath, place)
      const answer = reading instanceof Promise ? await reading : reading
      return "error" in answer
        ? { ...base, state: "failed", error: answer.error }
        : { ...base, state: "success", output: answer.output }
    } catch (error) {
      return { ...base, state: "failed", error: `its output or log could not be stored: ${messageOf(error)}` }
    } finally {
      // The helper has removed what it sent along.
      if (exited.outputSize > 0 && exited.answer?.from !== "output") await removeOutput(request.outputPath)
    }
  }

  async #lost(
    reason: string,
    begun: Begun | null,
    upload: LogUpload | null,
    helper: Helper,
    { attemptId }: Assignment,
  ): Promise<AttemptResult> {
    // Without a namespace the task may have outlived its helper.
    while (!helper.hello.namespace && killAttempt(attemptId) > 0) {
      await new Promise<void>((look) => this.#clock.after(LOOK_MS, look))
    }
    // What there is of its log is of use, and no reason to fail otherwise than it did.
    if (upload !== null) await this.#storeLog(upload).catch(() => undefined)
    return { ...resultBase(begun, this.#clock.now()), state: "lost", error: reason }
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

  #unstarted(error: string): AttemptResult {
    return { ...resultBase(null, this.#clock.now()), state: "failed", error }
  }
}
