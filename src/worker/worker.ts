// A worker: registers at a server, claims what it has room for, runs it through the same runner as a server does, and tells what became
// of it. A server that goes away stops nothing: what runs goes on, and is told to whichever answers next.
//
// A worker that was given up on (paused past its lease) ends what it ran without a word, and registers anew.

import { existsSync } from "node:fs"
import { TaskFolders } from "./folders/task-folders.ts"
import { startFreezeGuard } from "./freeze-guard.ts"
import { type HeartbeatMessage, startHeartbeat } from "./connection/heartbeat.ts"
import { ServerClient } from "./connection/server-client.ts"
import { ServerError } from "./connection/server-error.ts"
import { LogShipper } from "./connection/log-shipper.ts"
import { OutputUploader } from "./connection/output-uploader.ts"
import { register } from "./connection/registration.ts"
import { Reporter } from "./connection/reporter.ts"
import type { Registration } from "./connection/session.ts"
import { AssignedTask, untilStopped } from "./tasks/assigned-task.ts"
import type { AttemptResult } from "../core/model/change.ts"
import type { Json } from "../core/model/json.ts"
import type { Clock, Random } from "../core/model/ports.ts"
import type { Logger } from "../engine/ports.ts"
import { messageOf } from "../core/model/error-message.ts"
import { AttemptRunner } from "../engine/attempts/attempt-runner.ts"
import type { Executor } from "../executors/executor.ts"
import type { ObjectStore } from "../objects/objects.ts"
import type { claimed } from "../protocol/api/workers.ts"
import type { z } from "zod"

export interface WorkerOptions {
  servers: readonly string[]
  /** A key with the scope `worker`. */
  key: string
  name: string
  queues: string[]
  labels: string[]
  /** Queues whose jobs its own handlers run. */
  handlers?: string[]
  /** Names of the functions that it has registered. */
  functions?: string[]
  /** It runs these and its handlers, in this very process, and no other tasks. */
  functionsOnly?: boolean
  capacity: number
  version: string
  executors: ReadonlyMap<string, Executor>
  /** A store on this machine, for logs and outputs on their way. */
  objects: ObjectStore & Required<Pick<ObjectStore, "localPath">>
  dataDir: string
  /** What running tasks get when the worker is told to stop. */
  graceMs: number
  clock: Clock
  random: Random
  log: Logger
}

type Claimed = z.output<typeof claimed>

const WAIT_MS = 20_000
/** Longer than the server waits. */
const CLAIM_TIMEOUT_MS = WAIT_MS + 10_000
/** With every slot taken, a poll is not sent at once: one may be free in a moment. */
const FULL_MS = 200
/** What the worker has is told to the server this often. */
const TELL_MS = 3000
/** For the last reports when it stops. */
const FAREWELL_MS = 10_000

export class Worker {
  readonly #options: WorkerOptions
  readonly #link: ServerClient
  readonly #folders: TaskFolders
  readonly #runner: AttemptRunner
  readonly #outputs: OutputUploader
  readonly #tasks = new Map<string, AssignedTask>()
  readonly #draining = new AbortController()
  #session: Registration | null = null
  #reporter: Reporter | null = null
  #logs: LogShipper | null = null
  #freed: (() => void)[] = []

  constructor(options: WorkerOptions) {
    this.#options = options
    const { servers, clock, random, executors, objects } = options
    this.#link = new ServerClient({ servers, clock, random, fetch })
    const { dataDir, log } = options
    this.#folders = new TaskFolders({
      dataDir,
      link: this.#link,
      trouble: (error) => log.warn({ error: error.message }, "a server does not send a file; trying others, and again"),
      untidy: (error) => log.warn({ error: messageOf(error) }, "could not remove files of a run"),
    })
    this.#outputs = new OutputUploader({ link: this.#link, objects, log: options.log, refused: (task) => this.#drop(task) })
    this.#runner = new AttemptRunner({
      executors,
      clock,
      readOutput: async (key) => JSON.parse(Buffer.from((await objects.get(key)) ?? "null").toString()) as Json,
    })
  }

  /** Takes nothing more: what runs gets its grace, the rest goes back. `run` then comes to its end. */
  stop(): void {
    this.#draining.abort()
  }

  /** Until it is stopped. Throws when the first server that answers will not have it. */
  async run(ready: (server: string) => void = () => {}): Promise<void> {
    const { executors, clock } = this.#options
    for (const executor of executors.values()) await executor.start?.()
    try {
      await this.#folders.start()
      let short = 0
      for (let first = true; !this.#draining.signal.aborted; first = false) {
        const session = await this.#register(first)
        if (session === null) break
        const begun = clock.now()
        this.#folders.reset()
        if (first) ready(this.#link.server)
        await this.#serve(session)
        // Servers that do not agree on who is there (two stores behind one address) would keep it busy with registering.
        short = clock.now() - begun < session.leaseMs ? short + 1 : 0
        if (short > 0) await this.#link.backOff(short, this.#draining.signal)
      }
    } finally {
      for (const executor of executors.values()) await executor.stop?.()
    }
  }

  #register(first: boolean): Promise<Registration | null> {
    const { name, queues, labels, handlers = [], functions = [], functionsOnly, capacity, version, key, log } = this.#options
    const calls = { ...(functions.length > 0 && { functions }), ...(functionsOnly === true && { functions_only: true }) }
    const body = { name, queues, labels, handlers, ...calls, capacity, version }
    return register({ link: this.#link, key, body, log, signal: this.#draining.signal, first })
  }

  /** One registration, to its end. */
  async #serve(session: Registration): Promise<void> {
    const { clock, log, servers, objects } = this.#options
    const trouble = (error: ServerError): void => {
      if (!session.ended.aborted) log.warn({ error: error.message }, "a server does not answer; trying others, and again")
    }
    this.#session = session
    this.#reporter = new Reporter(session, {
      link: this.#link,
      clock,
      refused: (task) => this.#drop(task),
      settled: (task) => this.#forget(task),
      trouble,
    })
    this.#logs = new LogShipper(session, { link: this.#link, clock, localPath: (key) => objects.localPath(key), trouble })
    const { id, token, heartbeatMs } = session
    // What runs in a process that stands still stands still with it; its other children are not ours.
    const endGuard = this.#options.functionsOnly === true ? () => {} : startFreezeGuard(session.leaseMs)
    const endHeartbeat = startHeartbeat({ servers, id, token, everyMs: heartbeatMs }, (news) => this.#heard(session, news))
    try {
      await this.#claimAll(session)
      if (session.ended.aborted) await this.#lose()
      else await this.#drain(session)
    } finally {
      endHeartbeat()
      endGuard()
      session.end()
    }
  }

  #heard(session: Registration, news: HeartbeatMessage): void {
    if ("stop" in news) this.#stopTasks(news.stop)
    else this.#deposed(session)
  }

  #deposed(session: Registration): void {
    if (session.ended.aborted) return
    this.#options.log.warn({ worker: session.id }, "this worker was given up on; ending what it runs, and registering anew")
    session.end()
    for (const task of this.#tasks.values()) this.#drop(task)
  }

  // -- claims --------------------------------------------------------------------------------------------------------------------

  async #claimAll(session: Registration): Promise<void> {
    const { clock } = this.#options
    const over = AbortSignal.any([session.ended, this.#draining.signal])
    let failures = 0
    let toldAt = 0
    while (!over.aborted) {
      if (this.#free === 0) await this.#roomOr(FULL_MS, over)
      if (over.aborted) return
      const tells = failures > 0 || clock.now() - toldAt >= TELL_MS
      const begun = clock.now()
      try {
        const answer = await this.#claim(session, tells, over)
        if (tells) toldAt = begun
        failures = 0
        const empty = this.#take(answer)
        // A server that is about to stop answers at once.
        if (empty && clock.now() - begun < FULL_MS && answer !== NO_ANSWER) await this.#link.backOff(0, over)
      } catch (error) {
        if (over.aborted || !(error instanceof ServerError)) return
        if (error.evicted) return this.#deposed(session)
        if (failures++ === 0) this.#options.log.warn({ error: error.message }, "could not ask for work; trying again")
        await this.#link.backOff(Math.min(failures - 1, 6), over)
      }
    }
  }

  /** One that was sent with every slot taken is cut short when one is free. */
  async #claim(session: Registration, tells: boolean, over: AbortSignal): Promise<Claimed> {
    const free = this.#free
    const stopping = [...this.#tasks.values()].filter((task) => task.stopping).map(({ id }) => id)
    const body = {
      free,
      wait_ms: WAIT_MS,
      stopping,
      ...(tells && { known: [...this.#tasks.keys()], runs: this.#folders.runsToCheck(this.#options.clock.now()) }),
    }
    const cut = new AbortController()
    if (free === 0) this.#freed.push(() => cut.abort())
    const signal = AbortSignal.any([over, cut.signal])
    const request = { path: `/workers/${session.id}/claim`, key: session.token, body, signal, timeoutMs: CLAIM_TIMEOUT_MS }
    try {
      return await this.#link.json<Claimed>(request)
    } catch (error) {
      if (cut.signal.aborted && !over.aborted) return NO_ANSWER
      throw error
    }
  }

  /** Gives whether there was nothing in it. */
  #take({ assignments, stop, lost, over, gone = [] }: Claimed): boolean {
    for (const wire of assignments) {
      if (this.#tasks.has(wire.attempt_id)) continue
      const task = new AssignedTask(wire)
      this.#tasks.set(task.id, task)
      if (this.#draining.signal.aborted) {
        task.running = false
        this.#reporter!.released(task)
      } else void this.#run(task, this.#session!)
    }
    this.#stopTasks(stop)
    for (const id of lost) {
      const task = this.#tasks.get(id)
      if (task !== undefined) this.#drop(task)
    }
    this.#folders.removeFinished(over, gone, this.#options.clock.now())
    return assignments.length + stop.length + lost.length + over.length === 0
  }

  get #free(): number {
    let running = 0
    for (const task of this.#tasks.values()) if (task.running) running += 1
    return Math.max(0, this.#options.capacity - running)
  }

  #roomOr(ms: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        cancel()
        signal.removeEventListener("abort", done)
        resolve()
      }
      const cancel = this.#options.clock.after(ms, done)
      signal.addEventListener("abort", done)
      this.#freed.push(done)
    })
  }

  #stopTasks(stops: Claimed["stop"]): void {
    for (const { attempt_id, reason } of stops) {
      const task = this.#tasks.get(attempt_id)
      if (task === undefined || task.stopping) continue
      task.stopping = true
      task.stop(reason)
    }
  }

  // -- tasks ---------------------------------------------------------------------------------------------------------------------

  async #run(task: AssignedTask, session: Registration): Promise<void> {
    const result = await this.#result(task, session)
    this.#folders.release(task)
    task.running = false
    for (const freed of this.#freed.splice(0)) freed()
    try {
      if (!task.dropped) await this.#logs!.finish(task)
      const told = task.dropped ? result : await this.#outputs.send(task, session, result)
      await this.#tidy(task)
      if (task.dropped || session.ended.aborted) this.#forget(task)
      else this.#reporter!.ended(task, told)
    } catch (error) {
      if (!session.ended.aborted) this.#reporter!.ended(task, this.#runner.failed(messageOf(error), true))
    }
  }

  async #result(task: AssignedTask, session: Registration): Promise<AttemptResult> {
    try {
      const assignment = await Promise.race([
        this.#folders.prepare(task, session, this.#options.clock.now()),
        untilStopped(task),
      ])
      if (typeof assignment === "string")
        return { ...this.#runner.failed("stopped while it was prepared", true), state: assignment }
      this.#logs!.add(task)
      return await this.#runner.run(assignment, task, {
        started: (info) => this.#reporter!.started(task, info),
        progress: ({ fraction, details }) => this.#reporter!.progress(task, fraction ?? null, details ?? null),
      })
    } catch (error) {
      return this.#runner.failed(`could not prepare the task: ${messageOf(error)}`, true)
    }
  }

  /** What it left in the store on this machine; the folder of a job goes with each attempt. */
  async #tidy({ work, wire }: AssignedTask): Promise<void> {
    const { objects, log } = this.#options
    try {
      // Most leave nothing.
      if (existsSync(objects.localPath(work.prefix.slice(0, -1)))) await objects.deletePrefix(work.prefix)
      if (wire.job) await this.#folders.remove(work.runId)
    } catch (error) {
      log.warn({ run: work.runId, error: messageOf(error) }, "could not remove what an attempt left")
    }
  }

  /** Others have it, or it is of no use any more: it ends without a word. */
  #drop(task: AssignedTask): void {
    task.dropped = true
    if (task.running) task.stop("lost")
    else this.#forget(task)
  }

  #forget(task: AssignedTask): void {
    this.#tasks.delete(task.id)
    for (const freed of this.#freed.splice(0)) freed()
  }

  // -- the end -------------------------------------------------------------------------------------------------------------------

  /** Nothing of the old registration is left running when the next begins. */
  async #lose(): Promise<void> {
    while ([...this.#tasks.values()].some((task) => task.running)) await this.#change()
    this.#tasks.clear()
  }

  async #drain(session: Registration): Promise<void> {
    const { clock, graceMs, log } = this.#options
    const stopAll = (): void => {
      for (const task of this.#tasks.values()) task.stop("shutdown")
    }
    const cancelGrace = clock.after(graceMs, stopAll)
    const giveUp = (message: string): void => {
      if (this.#tasks.size > 0) log.warn({ tasks: this.#tasks.size }, message)
      session.end()
    }
    // What is told to stop has its grace once more before it is killed.
    const cancelEnd = clock.after(2 * graceMs + FAREWELL_MS, () =>
      giveUp("tasks did not end in time; the lease gives them to others"),
    )
    const running = (): boolean => [...this.#tasks.values()].some((task) => task.running)
    while (running() && !session.ended.aborted) await this.#change(session.ended)
    cancelGrace()
    cancelEnd()
    // A server that does not answer now finds out by the lease.
    const cancelFarewell = clock.after(FAREWELL_MS, () => giveUp(UNTOLD))
    while (this.#tasks.size > 0 && !session.ended.aborted) await this.#change(session.ended)
    if (!session.ended.aborted) {
      const leave = { method: "DELETE", path: `/workers/${session.id}`, key: session.token, signal: session.ended } as const
      await this.#link.json(leave).catch((error: unknown) => log.warn({ error: messageOf(error) }, "could not say goodbye"))
    }
    cancelFarewell()
  }

  /** Something has ended. */
  #change(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      this.#freed.push(resolve)
      signal?.addEventListener("abort", () => resolve(), { once: true })
    })
  }
}

const UNTOLD = "no server took the last results in time; these tasks count as lost, and are tried again"

/** A poll that was cut short. */
const NO_ANSWER: Claimed = { assignments: [], stop: [], lost: [], over: [] }
