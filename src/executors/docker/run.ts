// One attempt in one container: create (with its image) → start → follow its log until it ends → output → remove. Whatever happens, the
// container is removed by its name at the end.

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
import { NoSuchImage, pullImage } from "./image.ts"
import { followLog, within } from "./log.ts"
import { registryAuth } from "./registry-auth.ts"
import { removeContainer } from "./sweep.ts"
import { type ContainerState, exitInWords, unstarted } from "./messages.ts"

/** Between tries to ask an engine that does not answer, and how many in a row. */
const AGAIN_MS = 500
const MAX_BROKEN = 40
/** A container that was killed is gone within this, or its engine is stuck. */
const KILLED_MS = 60_000
/** The log of a container that has ended comes to its end within this. */
const LOG_MS = 60_000

export interface RunParts {
  engine: Engine
  objects: ObjectStore
  clock: Clock
  owner: Owner
  env: Environ
}

export interface Places {
  folder: string
  output: string
  input: string
}

type Begun = Pick<AttemptResult, "startedAt" | "externalId"> & { startedAt: number }

export class ContainerRun {
  readonly #parts: RunParts
  readonly #places: Places
  readonly #assignment: Assignment
  readonly #context: LaunchContext
  /** The container was alive when it was told to end. */
  #told: Promise<boolean> = Promise.resolve(false)
  /** A container of that name is not ours to remove. */
  #foreign = false

  constructor(parts: RunParts, places: Places, assignment: Assignment, context: LaunchContext) {
    this.#parts = parts
    this.#places = places
    this.#assignment = assignment
    this.#context = context
  }

  async run(): Promise<AttemptResult> {
    const { clock } = this.#parts
    const { signal } = this.#context
    const { prefix, secrets } = this.#assignment
    let attached: Duplex | null = null
    let sink: LogSink | null = null
    try {
      const id = await this.#create()
      attached = await this.#parts.engine.hijack(`/containers/${id}/attach?stream=1&stdin=1&stdout=1&stderr=1`)
      // A container that ends without reading its input.
      attached.on("error", () => {})
      if (signal.aborted) return this.#stopped({ startedAt: null })
      sink = openLog(this.#parts.objects, prefix, { secrets })
      await this.#start(id)
      const begun = { startedAt: clock.now(), externalId: id.slice(0, 12) }
      this.#context.started({ at: begun.startedAt, externalId: begun.externalId })
      attached.end(this.#places.input)
      return await this.#supervise(id, begun, attached, sink)
    } catch (error) {
      await sink?.close().catch(() => {})
      return signal.aborted ? this.#stopped({ startedAt: null }) : unstarted(error, clock.now())
    } finally {
      attached?.destroy()
      await this.#remove()
    }
  }

  // -- the container -------------------------------------------------------------------------------------------------------------

  async #create(): Promise<string> {
    const { engine, owner } = this.#parts
    const { attemptId, node } = this.#assignment
    const { pull = "missing", platform } = optionsOf(this.#assignment)
    const name = containerName(attemptId)
    let mayPull = pull === "missing"
    if (pull === "always") await this.#pull()
    for (let tries = 0; ; tries++) {
      try {
        const query = { name, ...(platform !== undefined && { platform }) }
        const body = createRequest(this.#assignment, this.#places.folder, owner)
        const { Id } = (await engine.call("POST", "/containers/create", { query, body })) as { Id: string }
        return Id
      } catch (error) {
        if (error instanceof EngineError && error.status === 409) return await this.#adopt(name)
        if (error instanceof EngineError && error.status === 404 && /image/i.test(error.message)) {
          if (!mayPull) throw new NoSuchImage(`there is no image ${node.image} here, and it may not be fetched (pull: ${pull})`)
          mayPull = false
          await this.#pull()
        } else if (!(error instanceof EngineUnreachable) || tries > 0) throw error
      }
    }
  }

  async #pull(): Promise<void> {
    const image = this.#assignment.node.image ?? ""
    const { platform } = optionsOf(this.#assignment)
    const auth = await registryAuth(image, this.#parts.env)
    await pullImage(this.#parts.engine, { image, platform, auth, signal: this.#context.signal })
  }

  /** The name is taken: by ourselves, when the answer to an earlier request was lost. */
  async #adopt(name: string): Promise<string> {
    const { Id, Config } = (await this.#parts.engine.call("GET", `/containers/${name}/json`)) as {
      Id: string
      Config: { Labels: { [label: string]: string } }
    }
    if (Config.Labels[LABELS.attempt] === this.#assignment.attemptId) return Id
    this.#foreign = true
    throw new Error(`the name ${name} is taken by a container that is not Ork's`)
  }

  async #start(id: string): Promise<void> {
    const { engine } = this.#parts
    try {
      await engine.call("POST", `/containers/${id}/start`)
    } catch (error) {
      if (!(error instanceof EngineUnreachable)) throw error
      // Perhaps it was started: once is enough.
      if ((await this.#state(id)).Status === "created") await engine.call("POST", `/containers/${id}/start`)
    }
  }

  async #state(id: string): Promise<ContainerState> {
    const { State } = (await this.#parts.engine.call("GET", `/containers/${id}/json`)) as { State: ContainerState }
    return State
  }

  async #remove(): Promise<void> {
    for (let tries = 0; tries < 3 && !this.#foreign; tries++) {
      try {
        return await removeContainer(this.#parts.engine, containerName(this.#assignment.attemptId))
      } catch {
        // What is left then goes when Ork starts the next time.
        await delay(AGAIN_MS)
      }
    }
  }

  // -- its life ------------------------------------------------------------------------------------------------------------------

  async #supervise(id: string, begun: Begun, attached: Duplex, sink: LogSink): Promise<AttemptResult> {
    const { engine, clock } = this.#parts
    let closed: ReturnType<LogSink["close"]> | null = null
    const closing = (): ReturnType<LogSink["close"]> => (closed ??= sink.close())
    const gaveUp = Promise.withResolvers<void>()
    const release = this.#stopOnAbort(id, gaveUp.resolve)
    try {
      const ended = Promise.race([this.#ended(id), gaveUp.promise])
      const log = followLog(engine, id, { attached, sink, ended })
      log.catch(() => {})
      await ended
      const whole = await within(LOG_MS, log).catch(() => false)
      const { last } = await closing()
      return await this.#result(id, begun, last, whole)
    } catch (error) {
      await closing().catch(() => {})
      const result = { ...begun, finishedAt: clock.now(), error: messageOf(error) }
      const vanished = error instanceof Vanished || (error instanceof EngineError && error.status === 404)
      return { ...result, state: vanished ? "lost" : "failed" }
    } finally {
      release()
    }
  }

  /** Resolves when the container no longer runs, over broken connections. */
  async #ended(id: string): Promise<void> {
    const { engine } = this.#parts
    for (let broken = 0; ; broken++) {
      try {
        await engine.call("POST", `/containers/${id}/wait`, { query: { condition: "not-running" }, timeoutMs: null })
        return
      } catch (error) {
        if (error instanceof EngineError && error.status === 404)
          throw new Vanished("its container was removed by somebody else")
        if (broken >= MAX_BROKEN) throw new Vanished(`its container was lost from sight: ${messageOf(error)}`)
        await delay(AGAIN_MS)
      }
    }
  }

  #stopOnAbort(id: string, giveUp: () => void): () => void {
    const { clock } = this.#parts
    const { signal } = this.#context
    let cancelTimer: (() => void) | null = null
    const onAbort = (): void => {
      this.#told = this.#kill(id, "SIGTERM")
      cancelTimer = clock.after(this.#assignment.graceMs, () => {
        void this.#kill(id, "SIGKILL")
        cancelTimer = clock.after(KILLED_MS, giveUp)
      })
    }
    if (signal.aborted) onAbort()
    else signal.addEventListener("abort", onAbort, { once: true })
    return () => {
      signal.removeEventListener("abort", onAbort)
      cancelTimer?.()
    }
  }

  /** False: it had ended before. */
  async #kill(id: string, signal: string): Promise<boolean> {
    try {
      await this.#parts.engine.call("POST", `/containers/${id}/kill`, { query: { signal } })
      return true
    } catch (error) {
      return !(error instanceof EngineError)
    }
  }

  // -- its end -------------------------------------------------------------------------------------------------------------------

  async #result(id: string, begun: Begun, last: LastLine, wholeLog: boolean): Promise<AttemptResult> {
    const { objects, clock } = this.#parts
    const { prefix, maxOutputBytes, secrets, node } = this.#assignment
    const state = await this.#state(id)
    const base = { ...begun, finishedAt: clock.now(), exitCode: state.ExitCode, ...signalOf(state.ExitCode) }
    if (await this.#told) return this.#stopped(base)
    const error = exitInWords(state, node.resources?.memoryBytes ?? 0)
    const note = wholeLog ? "" : " (its log is incomplete)"
    if (error !== null) return { ...base, state: "failed", error: error + note }
    const place = { objects, prefix, maxBytes: maxOutputBytes, secrets }
    const answer = await readOutput(this.#places.output, last, place)
    return "error" in answer
      ? { ...base, state: "failed", error: answer.error + note }
      : { ...base, state: "success", output: answer.output }
  }

  #stopped(base: Omit<AttemptResult, "state" | "finishedAt">): AttemptResult {
    const finishedAt = this.#parts.clock.now()
    return stoppedResult(this.#context.signal.reason as StopReason, { ...base, finishedAt }, this.#assignment)
  }
}

class Vanished extends Error {}

const signalOf = (exitCode: number): Pick<AttemptResult, "usage"> =>
  exitCode > 128 && exitCode <= 192 ? { usage: { signal: signalName(exitCode - 128) } } : {}
