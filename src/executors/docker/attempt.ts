// One attempt in one container: create (and pull its image) → start → follow its log until it ends → read the output → remove.
// The container is always removed at the end, by its name. While the engine is away, the attempt waits for it: until its start timeout
// before the start, until its timeout afterwards.

import { type Duplex, Readable } from "node:stream"
import { messageOf } from "../../core/values/error-message.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Clock } from "../../core/model/ports.ts"
import { type LogSink, openLog } from "../../objects/logs/log-sink.ts"
import type { LastLine } from "../../objects/logs/log-writer.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment, LaunchContext, StopReason } from "../executor.ts"
import { inputText } from "../input.ts"
import { outputFromFile, outputTarget, readOutput } from "../output.ts"
import { stoppedResult } from "../stopped.ts"
import { signalName } from "../messages.ts"
import type { Environ } from "./address.ts"
import { containerName, createRequest, LABELS, type Owner } from "./container.ts"
import { type DockerEngine, EngineError } from "./engine.ts"
import { MissingImage, pullImage } from "./image.ts"
import { type ContainerEnd, LogFollower, settlesWithin } from "./log.ts"
import { type ContainerState, describeExit, startFailure } from "./messages.ts"
import { mountsOf, optionsOf } from "./mounts.ts"
import { isOutage, Pauses, untilReachable } from "./outage.ts"
import { registryAuth } from "./registry-auth.ts"
import { removeContainer } from "./sweep.ts"

/** Errors of the engine in a row after which the container counts as lost. */
const MAX_ERRORS = 40
/** Time for the engine to end a killed container. */
const KILL_TIMEOUT_MS = 60_000
/** Time without activity after which the rest of the log of a container that has ended is given up. */
const LOG_MS = 60_000
const EVENT_DELAY_S = 1
/** Exit codes of containers that ended with their engine: SIGTERM, SIGKILL, and the engine's own code for an unknown one. */
const ENGINE_EXIT_CODES: ReadonlySet<number> = new Set([143, 137, 255])

export interface DockerLaunch {
  assignment: Assignment
  context: LaunchContext
  engine: DockerEngine
  objects: ObjectStore
  clock: Clock
  owner: Owner
  env: Environ
  files: {
    /** Folder on this machine that is mounted into the container. */
    folder: string
    /** Path of the output file in it. */
    output: string
  }
  /** Called when the container could not be removed. */
  leftBehind(): void
}

type Started = Pick<AttemptResult, "startedAt" | "externalId"> & { startedAt: number }

/** `unseen`: the container ended while the connection to its engine was broken. */
interface ObservedEnd extends ContainerEnd {
  unseen: boolean
}

export class DockerAttempt {
  readonly #launch: DockerLaunch
  readonly #assignment: Assignment
  readonly #context: LaunchContext
  /** Aborts when the attempt is over, or when a stopped container is given up. */
  readonly #over = new AbortController()
  /** Resolves with true when the container was running at the stop request. */
  #stopRequested: Promise<boolean> = Promise.resolve(false)
  #sink: LogSink | null = null
  /** True when a container that is not Ork's has the name: it must not be removed. */
  #foreign = false

  constructor(launch: DockerLaunch) {
    this.#launch = launch
    this.#assignment = launch.assignment
    this.#context = launch.context
  }

  async run(): Promise<AttemptResult> {
    const { clock } = this.#launch
    const { signal } = this.#context
    let attached: Duplex | null = null
    try {
      const created = await this.#begin()
      if (created === null) return this.#stopped({ startedAt: null })
      const { id } = created
      attached = created.attached
      const started = { startedAt: clock.now(), externalId: id.slice(0, 12) }
      this.#context.started({ at: started.startedAt, externalId: started.externalId })
      // Not from the file in the container's folder, which the container can replace.
      Readable.from(inputText(this.#assignment), { objectMode: false })
        .on("error", () => attached?.destroy())
        .pipe(attached)
      return await this.#supervise(id, started, attached, this.#openLog())
    } catch (error) {
      await this.#sink?.close().catch(() => {})
      if (!signal.aborted) return startFailure(error, clock.now())
      const waitedFor = isOutage(error) ? { waitedFor: messageOf(error) } : {}
      return { ...this.#stopped({ startedAt: null }), ...waitedFor }
    } finally {
      this.#over.abort()
      attached?.destroy()
      await this.#remove()
    }
  }

  /** Creates, attaches and starts the container; begins again while the engine is away. Resolves with null after a stop. */
  async #begin(): Promise<{ id: string; attached: Duplex } | null> {
    const { engine, clock } = this.#launch
    const { signal } = this.#context
    const pauses = new Pauses(clock, signal)
    for (;;) {
      let attached: Duplex | null = null
      try {
        const id = await this.#create()
        attached = await engine.hijack(`/containers/${id}/attach?stream=1&stdin=1&stdout=1&stderr=1`)
        // Ignores the error of a container that ends without reading its input.
        attached.on("error", () => {})
        if (!signal.aborted) {
          this.#openLog()
          await this.#start(id)
          return { id, attached }
        }
        attached.destroy()
        return null
      } catch (error) {
        attached?.destroy()
        if (signal.aborted || !isOutage(error)) throw error
        await pauses.pause()
        // The error explains what the attempt waited for.
        if (signal.aborted) throw error
      }
    }
  }

  #openLog(): LogSink {
    return (this.#sink ??= openLog(this.#launch.objects, this.#assignment.prefix, this.#assignment))
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
    for (;;) {
      try {
        const query = { name, ...(platform !== undefined && { platform }) }
        const body = createRequest(this.#assignment, await mountsOf(this.#assignment, files.folder), owner)
        const { Id } = (await engine.call("POST", "/containers/create", { query, body })) as { Id: string }
        return Id
      } catch (error) {
        if (error instanceof EngineError && error.status === 409) return await this.#adopt(name)
        if (error instanceof EngineError && error.status === 404 && /image/i.test(error.message)) {
          if (!mayPull) throw new MissingImage(`the image ${node.image} is missing, and may not be pulled (pull: ${pull})`)
          mayPull = false
          await this.#pull()
        } else throw error
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
    try {
      await this.#launch.engine.call("POST", `/containers/${id}/start`)
    } catch (error) {
      if (!isOutage(error)) throw error
      // The request may have started it.
      const { Status } = await untilReachable(this.#launch.clock, this.#context.signal, () => this.#state(id))
      if (Status === "created") throw error
    }
  }

  async #state(id: string): Promise<ContainerState> {
    const { State } = (await this.#launch.engine.call("GET", `/containers/${id}/json`)) as { State: ContainerState }
    return State
  }

  async #remove(): Promise<void> {
    if (this.#foreign) return
    await removeContainer(this.#launch.engine, containerName(this.#assignment.attemptId)).catch(() => this.#launch.leftBehind())
  }

  // -- while the container runs --------------------------------------------------------------------------------------------------

  async #supervise(id: string, started: Started, attached: Duplex, sink: LogSink): Promise<AttemptResult> {
    const { engine, clock } = this.#launch
    let closed: ReturnType<LogSink["close"]> | null = null
    const closeLog = (): ReturnType<LogSink["close"]> => (closed ??= sink.close())
    const stopListening = this.#stopOnAbort(id)
    try {
      const ended = this.#untilEnd(id)
      const follower = new LogFollower(engine, clock, id)
      const log = follower.follow({ attached, sink, ended, signal: this.#over.signal })
      log.catch(() => {})
      const end = await ended
      const logError = await restOfLog(follower, log)
      const { last } = await closeLog()
      return await this.#result(id, started, { ...end, last, logError })
    } catch (error) {
      await closeLog().catch(() => {})
      if (this.#context.signal.aborted) return this.#stopped(started)
      const result = { ...started, finishedAt: clock.now(), error: messageOf(error) }
      if (isMissing(error)) return { ...result, state: "lost", error: "its container was removed by somebody else" }
      return { ...result, state: error instanceof ContainerLost ? "lost" : "failed" }
    } finally {
      stopListening()
    }
  }

  /** Resolves when the container no longer runs. Waits while the engine is away. */
  async #untilEnd(id: string): Promise<ObservedEnd> {
    const { engine, clock } = this.#launch
    const { signal } = this.#over
    const pauses = new Pauses(clock, signal)
    for (let errors = 0, broken = false; ;) {
      try {
        if (broken && !isRunning(await this.#state(id))) return { broken, unseen: true }
        errors = 0
        const query = { condition: "not-running" }
        const end = await engine.call("POST", `/containers/${id}/wait`, { query, timeoutMs: null, signal })
        if (reportsEnd(end)) return { broken, unseen: false }
        broken = true
        await pauses.pause()
      } catch (error) {
        if (signal.aborted || isMissing(error)) throw error
        if (isOutage(error)) errors = 0
        else if (++errors >= MAX_ERRORS) throw new ContainerLost(`its container can no longer be observed: ${messageOf(error)}`)
        broken = true
        await pauses.pause()
      }
    }
  }

  #stopOnAbort(id: string): () => void {
    const { clock } = this.#launch
    const { signal } = this.#context
    let cancelTimer: (() => void) | null = null
    const onAbort = (): void => {
      this.#stopRequested = this.#kill(id, "SIGTERM")
      cancelTimer = clock.after(this.#assignment.graceMs, () => {
        void this.#kill(id, "SIGKILL")
        cancelTimer = clock.after(KILL_TIMEOUT_MS, () => this.#over.abort())
      })
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener("abort", onAbort, { once: true })
    return () => {
      signal.removeEventListener("abort", onAbort)
      cancelTimer?.()
    }
  }

  /** Sends a signal, also to an engine that is away now. Resolves with false when the container had ended before. */
  async #kill(id: string, signal: string): Promise<boolean> {
    const { engine } = this.#launch
    try {
      await untilReachable(this.#launch.clock, this.#over.signal, () =>
        engine.call("POST", `/containers/${id}/kill`, { query: { signal } }),
      )
      return true
    } catch (error) {
      return !(error instanceof EngineError)
    }
  }

  // -- result --------------------------------------------------------------------------------------------------------------------

  async #result(id: string, started: Started, end: End): Promise<AttemptResult> {
    const { clock } = this.#launch
    const state = await untilReachable(this.#launch.clock, this.#over.signal, () => this.#state(id))
    const base = { ...started, finishedAt: clock.now(), exitCode: state.ExitCode, ...signalOf(state.ExitCode) }
    if (await this.#stopRequested) return this.#stopped(base)
    const error = describeExit(state, this.#assignment.node.resources?.memoryBytes ?? 0)
    const note = end.logError === null ? "" : ` (its log is incomplete: ${end.logError})`
    if (error === null) return await this.#success(base, end, note)
    if (await this.#endedByOthers(id, state, end.unseen)) {
      return { ...base, state: "lost", error: `its container was stopped by somebody else: ${error}` }
    }
    return { ...base, state: "failed", error: error + note }
  }

  /** Returns the result of a success. Without a file, the output is the last line of the log: an incomplete log is then no success. */
  async #success(base: Omit<AttemptResult, "state">, { last, logError }: End, note: string): Promise<AttemptResult> {
    const { objects, files } = this.#launch
    const target = outputTarget(objects, this.#assignment)
    const output = logError === null ? await readOutput(files.output, last, target) : await outputFromFile(files.output, target)
    if (output === null)
      return { ...base, state: "failed", error: `its output is unknown, because its log is incomplete: ${logError}` }
    return "error" in output
      ? { ...base, state: "failed", error: output.error + note }
      : { ...base, state: "success", output: output.output }
  }

  /** Returns whether the container was killed through the engine (`docker rm -f`, a shutdown of the engine), or ended with it. */
  async #endedByOthers(id: string, { ExitCode, OOMKilled, FinishedAt }: ContainerState, unseen: boolean): Promise<boolean> {
    if (OOMKilled || ExitCode <= 128) return false
    if (unseen && ENGINE_EXIT_CODES.has(ExitCode)) return true
    const filters = JSON.stringify({ container: [id], event: ["kill"] })
    // By the engine's clock. The event may follow the end.
    const until = String(Date.parse(FinishedAt) / 1000 + EVENT_DELAY_S)
    try {
      const events = await this.#launch.engine.stream("GET", "/events", { query: { since: "0", until, filters } })
      for await (const _ of events) return true
    } catch {
      // Engines without events: the exit code decides.
    }
    return false
  }

  #stopped(base: Omit<AttemptResult, "state" | "finishedAt">): AttemptResult {
    const finishedAt = this.#launch.clock.now()
    return stoppedResult(this.#context.signal.reason as StopReason, { ...base, finishedAt }, this.#assignment)
  }
}

interface End extends ObservedEnd {
  last: LastLine
  /** null: the log is complete. */
  logError: string | null
}

class ContainerLost extends Error {}

const isRunning = ({ Status }: ContainerState): boolean => ["running", "paused", "restarting"].includes(Status)

/** An engine that shuts down while its containers live on responds with an error, and a proxy may pass on an empty response. */
const reportsEnd = (response: unknown): boolean => {
  const { StatusCode, Error: error } = (response ?? {}) as { StatusCode?: unknown; Error?: unknown }
  return typeof StatusCode === "number" && (error === undefined || error === null)
}

const isMissing = (error: unknown): boolean => error instanceof EngineError && error.status === 404

/** Waits for the log of a container that has ended. Resolves with an error when it stays incomplete, null otherwise. */
const restOfLog = async (follower: LogFollower, log: Promise<void>): Promise<string | null> => {
  try {
    for (let seen = -1; !(await settlesWithin(LOG_MS, log)); seen = follower.activity) {
      if (follower.activity === seen) return "the engine does not send the rest of it"
    }
    return null
  } catch (error) {
    return messageOf(error)
  }
}

const signalOf = (exitCode: number): Pick<AttemptResult, "usage"> =>
  exitCode > 128 && exitCode <= 192 ? { usage: { signal: signalName(exitCode - 128) } } : {}
