// One attempt in one container: create (and pull its image) → start → follow its log until it ends → read the output → remove.
// The container is always removed at the end, by its name.

import type { Duplex } from "node:stream"
import { setTimeout as delay } from "node:timers/promises"
import { messageOf } from "../../core/model/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import type { LastLine } from "../../objects/logs/log-writer.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, LaunchContext, StopReason } from "../executor.ts"
import { readOutput } from "../output.ts"
import { stoppedResult } from "../stopped.ts"
import { signalName } from "../messages.ts"
import type { Environ } from "./address.ts"
import { containerName, createRequest, LABELS, optionsOf, type Owner } from "./container.ts"
import { type Engine, EngineError, EngineUnreachable } from "./engine.ts"
import { MissingImage, pullImage } from "./image.ts"
import { followLog, settlesWithin } from "./log.ts"
import { type ContainerState, describeExit, startFailure } from "./messages.ts"
import { registryAuth } from "./registry-auth.ts"
import { removeContainer } from "./sweep.ts"

const RETRY_MS = 500
/** Failed requests in a row after which the container counts as lost. */
const MAX_BROKEN = 40
const MAX_REMOVE_TRIES = 3
/** Time for the engine to end a killed container. */
const KILL_TIMEOUT_MS = 60_000
/** Time for the rest of the log of a container that has ended. */
const LOG_MS = 60_000

export interface DockerLaunch {
  assignment: Assignment
  context: LaunchContext
  engine: Engine
  objects: ObjectStore
  clock: Clock
  owner: Owner
  env: Environ
  files: {
    /** Folder on this machine that is mounted into the container. */
    folder: string
    /** Path of the output file in it. */
    output: string
    /** JSON of the task's input. */
    input: string
  }
}

type Started = Pick<AttemptResult, "startedAt" | "externalId"> & { startedAt: number }

export class DockerAttempt {
  readonly #launch: DockerLaunch
  readonly #assignment: Assignment
  readonly #context: LaunchContext
  /** Resolves with true when the container was running at the stop request. */
  #stopRequested: Promise<boolean> = Promise.resolve(false)
  /** True when a container that is not Ork's has the name: it must not be removed. */
  #foreign = false

  constructor(launch: DockerLaunch) {
    this.#launch = launch
    this.#assignment = launch.assignment
    this.#context = launch.context
  }

  async run(): Promise<AttemptResult> {
    const { clock, engine, objects, files } = this.#launch
    const { signal } = this.#context
    const { prefix, secrets } = this.#assignment
    let attached: Duplex | null = null
    let sink: LogSink | null = null
    try {
      const id = await this.#create()
      attached = await engine.hijack(`/containers/${id}/attach?stream=1&stdin=1&stdout=1&stderr=1`)
      // Ignores the error of a container that ends without reading its input.
      attached.on("error", () => {})
      if (signal.aborted) return this.#stopped({ startedAt: null })
      sink = openLog(objects, prefix, { secrets })
      await this.#start(id)
      const started = { startedAt: clock.now(), externalId: id.slice(0, 12) }
      this.#context.started({ at: started.startedAt, externalId: started.externalId })
      attached.end(files.input)
      return await this.#supervise(id, started, attached, sink)
    } catch (error) {
      await sink?.close().catch(() => {})
      return signal.aborted ? this.#stopped({ startedAt: null }) : startFailure(error, clock.now())
    } finally {
      attached?.destroy()
      await this.#remove()
    }
  }

  // -- creation and removal ------------------------------------------------------------------------------------------------------

  /** Creates the container, and pulls its image if necessary. Resolves with its id. */
  async #create(): Promise<string> {
    const { engine, owner, files } = this.#launch
    const { attemptId, node } = this.#assignment
    const { pull = "missing", platform } = optionsOf(this.#assignment)
    const name = containerName(attemptId)
    let mayPull = pull === "missing"
    if (pull === "always") await this.#pull()
    for (let tries = 0; ; tries++) {
      try {
        const query = { name, ...(platform !== undefined && { platform }) }
        const body = createRequest(this.#assignment, files.folder, owner)
        const { Id } = (await engine.call("POST", "/containers/create", { query, body })) as { Id: string }
        return Id
      } catch (error) {
        if (error instanceof EngineError && error.status === 409) return await this.#adopt(name)
        if (error instanceof EngineError && error.status === 404 && /image/i.test(error.message)) {
          if (!mayPull) throw new MissingImage(`the image ${node.image} is missing, and may not be pulled (pull: ${pull})`)
          mayPull = false
          await this.#pull()
        } else if (!(error instanceof EngineUnreachable) || tries > 0) throw error
      }
    }
  }

  async #pull(): Promise<void> {
    const image = this.#assignment.node.image ?? ""
    const { platform } = optionsOf(this.#assignment)
    const auth = await registryAuth(image, this.#launch.env)
    await pullImage(this.#launch.engine, { image, platform, auth, signal: this.#context.signal })
  }

  /** Adopts the existing container of that name, which an earlier request created when its response was lost. */
  async #adopt(name: string): Promise<string> {
    const { Id, Config } = (await this.#launch.engine.call("GET", `/containers/${name}/json`)) as {
      Id: string
      Config: { Labels: { [label: string]: string } }
    }
    if (Config.Labels[LABELS.attempt] === this.#assignment.attemptId) return Id
    this.#foreign = true
    throw new Error(`the name ${name} is taken by a container that is not Ork's`)
  }

  async #start(id: string): Promise<void> {
    const { engine } = this.#launch
    try {
      await engine.call("POST", `/containers/${id}/start`)
    } catch (error) {
      if (!(error instanceof EngineUnreachable)) throw error
      // The request may have started it.
      if ((await this.#state(id)).Status === "created") await engine.call("POST", `/containers/${id}/start`)
    }
  }

  async #state(id: string): Promise<ContainerState> {
    const { State } = (await this.#launch.engine.call("GET", `/containers/${id}/json`)) as { State: ContainerState }
    return State
  }

  async #remove(): Promise<void> {
    for (let tries = 0; tries < MAX_REMOVE_TRIES && !this.#foreign; tries++) {
      try {
        return await removeContainer(this.#launch.engine, containerName(this.#assignment.attemptId))
      } catch {
        // The next start of Ork removes a container that is left.
        await delay(RETRY_MS)
      }
    }
  }

  // -- while the container runs --------------------------------------------------------------------------------------------------

  async #supervise(id: string, started: Started, attached: Duplex, sink: LogSink): Promise<AttemptResult> {
    const { engine, clock } = this.#launch
    let closed: ReturnType<LogSink["close"]> | null = null
    const closeLog = (): ReturnType<LogSink["close"]> => (closed ??= sink.close())
    const gaveUp = Promise.withResolvers<void>()
    const stopListening = this.#stopOnAbort(id, gaveUp.resolve)
    try {
      const ended = Promise.race([this.#untilEnd(id), gaveUp.promise])
      const log = followLog(engine, id, { attached, sink, ended })
      log.catch(() => {})
      await ended
      const complete = await settlesWithin(LOG_MS, log).catch(() => false)
      const { last } = await closeLog()
      return await this.#result(id, started, last, complete)
    } catch (error) {
      await closeLog().catch(() => {})
      const result = { ...started, finishedAt: clock.now(), error: messageOf(error) }
      const lost = error instanceof ContainerLost || (error instanceof EngineError && error.status === 404)
      return { ...result, state: lost ? "lost" : "failed" }
    } finally {
      stopListening()
    }
  }

  /** Resolves when the container no longer runs. Retries over broken connections. */
  async #untilEnd(id: string): Promise<void> {
    const { engine } = this.#launch
    for (let broken = 0; ; broken++) {
      try {
        await engine.call("POST", `/containers/${id}/wait`, { query: { condition: "not-running" }, timeoutMs: null })
        return
      } catch (error) {
        if (error instanceof EngineError && error.status === 404)
          throw new ContainerLost("its container was removed by somebody else")
        if (broken >= MAX_BROKEN) throw new ContainerLost(`its container can no longer be observed: ${messageOf(error)}`)
        await delay(RETRY_MS)
      }
    }
  }

  #stopOnAbort(id: string, giveUp: () => void): () => void {
    const { clock } = this.#launch
    const { signal } = this.#context
    let cancelTimer: (() => void) | null = null
    const onAbort = (): void => {
      this.#stopRequested = this.#kill(id, "SIGTERM")
      cancelTimer = clock.after(this.#assignment.graceMs, () => {
        void this.#kill(id, "SIGKILL")
        cancelTimer = clock.after(KILL_TIMEOUT_MS, giveUp)
      })
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener("abort", onAbort, { once: true })
    return () => {
      signal.removeEventListener("abort", onAbort)
      cancelTimer?.()
    }
  }

  /** Sends a signal. Resolves with false when the container had ended before. */
  async #kill(id: string, signal: string): Promise<boolean> {
    try {
      await this.#launch.engine.call("POST", `/containers/${id}/kill`, { query: { signal } })
      return true
    } catch (error) {
      return !(error instanceof EngineError)
    }
  }

  // -- result --------------------------------------------------------------------------------------------------------------------

  async #result(id: string, started: Started, last: LastLine, logComplete: boolean): Promise<AttemptResult> {
    const { objects, clock, files } = this.#launch
    const { prefix, maxOutputBytes: maxBytes, secrets, node } = this.#assignment
    const state = await this.#state(id)
    const base = { ...started, finishedAt: clock.now(), exitCode: state.ExitCode, ...signalOf(state.ExitCode) }
    if (await this.#stopRequested) return this.#stopped(base)
    const error = describeExit(state, node.resources?.memoryBytes ?? 0)
    const note = logComplete ? "" : " (its log is incomplete)"
    if (error !== null) return { ...base, state: "failed", error: error + note }
    const output = await readOutput(files.output, last, { objects, prefix, maxBytes, secrets })
    return "error" in output
      ? { ...base, state: "failed", error: output.error + note }
      : { ...base, state: "success", output: output.output }
  }

  #stopped(base: Omit<AttemptResult, "state" | "finishedAt">): AttemptResult {
    const finishedAt = this.#launch.clock.now()
    return stoppedResult(this.#context.signal.reason as StopReason, { ...base, finishedAt }, this.#assignment)
  }
}

class ContainerLost extends Error {}

const signalOf = (exitCode: number): Pick<AttemptResult, "usage"> =>
  exitCode > 128 && exitCode <= 192 ? { usage: { signal: signalName(exitCode - 128) } } : {}
