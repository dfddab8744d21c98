// The process executor: runs commands through a small spawn helper, never by spawning from Ork itself (a large process spawns
// slowly). The helper writes logs, ends what a task leaves behind, and dies with Ork together with all of its tasks.
// One attempt: prepare → helper.run → started → exited → output → result.

import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs"
import { rm, writeFile } from "node:fs/promises"
import { constants, tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import type { AttemptResult } from "../../core/change.ts"
import type { Clock } from "../../core/ports.ts"
import { fileStream } from "../../objects/file.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../executor.ts"
import { environmentProblem, serverEnvironment, taskEnvironment } from "./environment.ts"
import type { Environment } from "./environment.ts"
import { Helper } from "./helper.ts"
import { currentOwner, killAttempt, killLeftovers, ownerAlive } from "./leftovers.ts"
import { nativeHelper } from "./native.ts"
import { readOutput, removeOutput } from "./output.ts"
import type { Answer } from "./output.ts"
import type { Exited, StartRequest } from "./protocol.ts"
import { exitInWords, failedInWords, signalName } from "./words.ts"

export interface ProcessExecutorOptions {
  objects: ObjectStore
  clock: Clock
  /** `auto`: the compiled helper where it can be had, else the one in JavaScript. */
  helper: "auto" | "native" | "node"
  dataDir: string
  /** false: works as where namespaces are not to be had. */
  namespace?: boolean
}

/** For `ork doctor`. */
export interface ProcessDescription {
  helper: "native" | "node"
  /** Why it is not the compiled one. */
  reason: string | null
  /** `namespace`: the kernel ends everything with Ork; `reaper`: the helper does; `environ`: found by a variable. */
  isolation: "namespace" | "reaper" | "environ"
  cgroups: "none" | "v1" | "v2"
}

/** Inputs above this are written by Ork, so that frames stay small. */
const MAX_FRAME_INPUT = 1 << 20

const { SIGTERM, SIGKILL } = constants.signals

export class ProcessExecutor implements Executor {
  readonly name = "process"
  readonly #options: ProcessExecutorOptions
  readonly #owner = currentOwner()
  readonly #ioDir: string
  #server: Environment = {}
  #helper: Helper | null = null
  #starting: Promise<Helper> | null = null
  #kind: { helper: "native" | "node"; reason: string | null } = { helper: "node", reason: null }
  #sharedDir: string | null = null
  #binaryDir: string | null = null

  constructor(options: ProcessExecutorOptions) {
    this.#options = options
    this.#ioDir = resolve(options.dataDir, "io", this.#owner)
  }

  async start(): Promise<void> {
    this.#server = serverEnvironment(process.env)
    killLeftovers()
    this.#removeStaleFolders()
    mkdirSync(this.#ioDir, { recursive: true, mode: 0o700 })
    await this.#ensureHelper()
  }

  async stop(): Promise<void> {
    const helper = await this.#starting
    this.#helper = null
    this.#starting = null
    await helper?.stop()
    for (const folder of [this.#ioDir, this.#sharedDir, this.#binaryDir]) {
      if (folder !== null) rmSync(folder, { recursive: true, force: true })
    }
    this.#sharedDir = this.#binaryDir = null
  }

  async describe(): Promise<ProcessDescription> {
    const { hello } = await this.#ensureHelper()
    const isolation = this.#kind.helper === "node" ? "environ" : hello.namespace ? "namespace" : "reaper"
    return { ...this.#kind, isolation, cgroups: hello.cgroups }
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    try {
      const helper = this.#helper?.dead === false ? this.#helper : await this.#ensureHelper()
      if (context.signal.aborted) return this.#stopped(context.signal.reason as StopReason, assignment, null)
      return await this.#run(helper, assignment, context)
    } catch (error) {
      return this.#failed(`could not run: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  async #run(helper: Helper, assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const request = this.#request(assignment)
    const problem = requestProblem(request)
    if (problem !== null) return { ...this.#failed(`could not start: ${problem}`), retryable: false }
    const input = JSON.stringify(assignment.input)
    const large = input.length > MAX_FRAME_INPUT
    if (large) await writeFile(request.stdinPath, input, { mode: 0o600 })
    else request.input = input
    try {
      return await this.#supervise(helper, request, assignment, context)
    } finally {
      if (large) await rm(request.stdinPath, { force: true })
    }
  }

  #request(assignment: Assignment): StartRequest {
    const { attemptId, prefix, node, command } = assignment
    const { objects } = this.#options
    const folder = node.runAs === undefined ? this.#ioDir : this.#sharedFolder()
    const inputPath = join(folder, `${attemptId}.input.json`)
    const outputPath = join(folder, `${attemptId}.output.json`)
    const env = taskEnvironment(this.#server, assignment, { inputPath, outputPath, owner: this.#owner })
    return {
      argv: command === null ? [] : "argv" in command ? command.argv : ["/bin/sh", "-c", command.shell],
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      cwd: assignment.workingDir,
      stdinPath: inputPath,
      logPath: objects.localPath ? objects.localPath(`${prefix}log`) : join(folder, `${attemptId}.log`),
      outputPath,
      runAs: node.runAs ?? "",
      homeOfUser: node.runAs !== undefined && assignment.env["HOME"] === undefined,
      input: null,
      memoryBytes: node.resources?.memoryBytes ?? 0,
      cpuMillis: Math.round((node.resources?.cpu ?? 0) * 1000),
    }
  }

  #supervise(helper: Helper, request: StartRequest, assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { clock } = this.#options
    const { signal } = context
    return new Promise((resolvePromise) => {
      let begun: Begun | null = null
      let cancelGrace: (() => void) | null = null
      const onAbort = (): void => {
        helper.kill(id, SIGTERM)
        cancelGrace = clock.after(assignment.graceMs, () => helper.kill(id, SIGKILL))
      }
      const end = (result: AttemptResult | Promise<AttemptResult>): void => {
        signal.removeEventListener("abort", onAbort)
        cancelGrace?.()
        resolvePromise(result)
      }
      const id = helper.run(request, {
        started: (pid) => {
          begun = { at: clock.now(), externalId: String(pid) }
          context.started(begun)
        },
        failed: (failed) => {
          const what = { argv: request.argv, cwd: request.cwd, runAs: request.runAs }
          end(this.#failed(failedInWords(failed, what)))
        },
        exited: (exited) => end(this.#ended(exited, begun, request, assignment, signal)),
        lost: (reason) => end(this.#lost(reason, begun, helper, assignment)),
      })
      if (signal.aborted) onAbort()
      else signal.addEventListener("abort", onAbort, { once: true })
    })
  }

  async #ended(
    exited: Exited,
    begun: Begun | null,
    request: StartRequest,
    assignment: Assignment,
    signal: AbortSignal,
  ): Promise<AttemptResult> {
    const result = { ...this.#base(begun), ...usageOf(exited) }
    const { objects } = this.#options
    const { prefix, maxOutputBytes } = assignment
    try {
      if (!objects.localPath) await uploadLog(objects, prefix, request.logPath)
      if (exited.told) return { ...this.#stopped(signal.reason as StopReason, assignment, begun), ...usageOf(exited) }
      const error = exitInWords(exited, request.memoryBytes)
      if (error !== null) return { ...result, state: "failed", error: withLogProblem(error, exited) }
      let answer: Answer | Promise<Answer>
      answer = readOutput(exited, { objects, prefix, outputPath: request.outputPath, maxBytes: maxOutputBytes })
      if (answer instanceof Promise) answer = await answer
      if ("error" in answer) return { ...result, state: "failed", error: answer.error }
      return { ...result, state: "success", output: answer.output }
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      return { ...result, state: "failed", error: `its output or log could not be stored: ${reason}` }
    } finally {
      // The helper has removed what it sent along.
      if (exited.outputSize > 0 && exited.answer?.from !== "output") await removeOutput(request.outputPath)
    }
  }

  #base(begun: Begun | null): Pick<AttemptResult, "startedAt" | "finishedAt" | "externalId"> {
    return {
      startedAt: begun?.at ?? null,
      finishedAt: this.#options.clock.now(),
      ...(begun === null ? {} : { externalId: begun.externalId }),
    }
  }

  #failed(error: string): AttemptResult {
    return { ...this.#base(null), state: "failed", error }
  }

  async #lost(reason: string, begun: Begun | null, helper: Helper, { attemptId }: Assignment): Promise<AttemptResult> {
    // Without a namespace the task may have outlived its helper.
    while (!helper.hello.namespace && killAttempt(attemptId) > 0)
      await new Promise((look) => this.#options.clock.after(5, () => look(null)))
    return { ...this.#base(begun), state: "lost", error: reason }
  }

  #stopped(reason: StopReason, assignment: Assignment, begun: Begun | null): AttemptResult {
    const base = this.#base(begun)
    switch (reason) {
      case "cancel":
        return { ...base, state: "cancelled", error: "cancelled" }
      case "timeout": {
        const { timeoutMs } = assignment.node
        return { ...base, state: "timeout", error: timeoutMs === null ? "timed out" : `timed out after ${timeoutMs / 1000} s` }
      }
      case "shutdown":
        return { ...base, state: "lost", error: "stopped, as Ork is shutting down" }
      case "lost":
        return { ...base, state: "lost", error: "stopped, as its holder lost its lease" }
      default:
        return reason satisfies never
    }
  }

  async #ensureHelper(): Promise<Helper> {
    if (this.#helper !== null && !this.#helper.dead) return this.#helper
    if (this.#helper?.dead) this.#starting = this.#helper = null
    this.#starting ??= this.#startHelper()
    try {
      return (this.#helper = await this.#starting)
    } catch (error) {
      this.#starting = null
      throw error
    }
  }

  async #startHelper(): Promise<Helper> {
    const { helper: wanted, namespace } = this.#options
    let reason: string | null = wanted === "node" ? "asked for" : null
    if (wanted !== "node") {
      const found = await nativeHelper()
      if ("path" in found) {
        this.#binaryDir = found.temporary
        const helper = await Helper.start(found.path, [this.#owner, ...(namespace === false ? ["--no-namespace"] : [])])
        if (helper.hello.usable) {
          this.#kind = { helper: "native", reason: null }
          return helper
        }
        await helper.stop()
        reason = "the limit RLIMIT_RTTIME, by which it tells tasks apart, is set too low here"
      } else {
        reason = found.unavailable
      }
      if (wanted === "native") throw new Error(`the compiled spawn helper cannot be used: ${reason}`)
    }
    this.#kind = { helper: "node", reason }
    return await Helper.start(process.execPath, [FALLBACK, this.#owner])
  }

  /** Files of tasks that run as other users: a folder that all may enter, in which each has its own files. */
  #sharedFolder(): string {
    if (this.#sharedDir === null) {
      this.#sharedDir = mkdtempSync(join(tmpdir(), "ork-io-"))
      chmodSync(this.#sharedDir, 0o711)
    }
    return this.#sharedDir
  }

  #removeStaleFolders(): void {
    const parent = resolve(this.#options.dataDir, "io")
    mkdirSync(parent, { recursive: true, mode: 0o700 })
    for (const name of readdirSync(parent)) {
      if (ownerAlive(name) === false) rmSync(join(parent, name), { recursive: true, force: true })
    }
  }
}

interface Begun {
  at: number
  externalId: string
}

/** The same file as this one, as TypeScript in the source tree and as JavaScript after a build. */
const FALLBACK = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./fallback.ts" : "./fallback.js", import.meta.url))

const requestProblem = (request: StartRequest): string | null => {
  if (request.argv.length === 0 || request.argv[0] === "") return "the task has no command"
  return environmentProblem(request.env, request.argv)
}

const usageOf = (exited: Exited): Pick<AttemptResult, "exitCode" | "usage"> => ({
  ...(exited.code === null ? {} : { exitCode: exited.code }),
  usage: {
    ...(exited.maxRssBytes > 0 ? { maxRssBytes: exited.maxRssBytes } : {}),
    ...(exited.maxRssBytes > 0
      ? { cpuUserMs: Math.round(exited.userMicros / 1000), cpuSystemMs: Math.round(exited.systemMicros / 1000) }
      : {}),
    ...(exited.signal === 0 ? {} : { signal: signalName(exited.signal) }),
  },
})

const withLogProblem = (error: string, exited: Exited): string =>
  exited.logErrno === 0 ? error : `${error} (its log is incomplete: it could not be written)`

/** For stores elsewhere: the log is written here and handed over at the end. */
const uploadLog = async (objects: ObjectStore, prefix: string, path: string): Promise<void> => {
  for (const [suffix, key] of [
    ["", "log"],
    [".idx", "log.idx"],
  ] as const) {
    if (statSync(path + suffix, { throwIfNoEntry: false }) !== undefined) {
      await objects.putStream(prefix + key, fileStream(path + suffix))
      await rm(path + suffix, { force: true })
    }
  }
}
