// A worker: registers at a server, claims tasks for its free slots, runs them and reports their results. Tasks keep running while no
// server responds; their results go to whichever server responds next. An evicted worker (its lease has expired) stops its tasks
// without reporting them and registers again.

import { ClaimLoop } from "./claim-loop.ts"
import { startHeartbeat } from "./connection/heartbeat.ts"
import { LogShipper } from "./connection/log-shipper.ts"
import { register, type Registration } from "./connection/registration.ts"
import { Reporter } from "./connection/reporter.ts"
import { ServerClient } from "./connection/server-client.ts"
import { TaskFolders } from "./folders/task-folders.ts"
import { startFreezeGuard } from "./freeze-guard.ts"
import type { AssignedTask } from "./tasks/assigned-task.ts"
import { type Connection, TaskRunner } from "./task-runner.ts"
import { TaskTable } from "./tasks/task-table.ts"
import { messageOf } from "../core/values/error-message.ts"
import type { Clock, Random } from "../core/model/ports.ts"
import { STALL_LIMIT_MS } from "../core/settings/leases.ts"
import type { Logger } from "../engine/ports.ts"
import type { Executor } from "../executors/executor.ts"
import type { ObjectStore } from "../objects/objects.ts"

export interface WorkerOptions {
  servers: readonly string[]
  /** API key with the scope `worker`. */
  key: string
  name: string
  queues: string[]
  labels: string[]
  /** Queues whose jobs the handlers of this worker run. */
  handlers?: string[]
  /** Names of the functions that are registered in this worker. */
  functions?: string[]
  /** True if the worker runs only its functions and handlers, in this process. */
  functionsOnly?: boolean
  /** Returns whether a server has proved that it may get the key; default: every server may. */
  proves?(server: string): Promise<boolean>
  capacity: number
  version: string
  executors: ReadonlyMap<string, Executor>
  /** Store on this machine for logs and outputs that are still to be sent. */
  objects: ObjectStore & Required<Pick<ObjectStore, "localPath">>
  dataDir: string
  /** Time that running tasks get to finish when the worker stops. */
  graceMs: number
  /** Time for which handlers may block the event loop before others take over the work of this worker. Default: 1 minute. */
  stallMs?: number
  clock: Clock
  random: Random
  log: Logger
}

/** Time for the last reports when the worker stops. */
const SHUTDOWN_MS = 10_000

export class Worker {
  readonly #options: WorkerOptions
  readonly #client: ServerClient
  readonly #folders: TaskFolders
  readonly #tasks: TaskTable
  readonly #runner: TaskRunner
  readonly #draining = new AbortController()

  constructor(options: WorkerOptions) {
    this.#options = options
    const { servers, clock, random, dataDir, log, capacity } = options
    this.#client = new ServerClient({ servers, clock, random, log, fetch })
    this.#tasks = new TaskTable(capacity)
    this.#folders = new TaskFolders({ dataDir, client: this.#client, log })
    this.#runner = new TaskRunner({ ...options, client: this.#client, folders: this.#folders, tasks: this.#tasks })
  }

  /** Starts draining: claims nothing more, and stops running tasks after the grace period. `run` resolves afterwards. */
  stop(): void {
    this.#draining.abort()
  }

  /** Runs until the worker is stopped. Throws if every server rejects the first registration. */
  async run(ready: (server: string) => void = () => {}): Promise<void> {
    const { executors, clock } = this.#options
    for (const executor of executors.values()) await executor.start?.()
    try {
      await this.#folders.start()
      let shortRegistrations = 0
      for (let first = true; !this.#draining.signal.aborted; first = false) {
        const registration = await this.#register(first)
        if (registration === null) break
        const begun = clock.monotonic()
        this.#folders.registrationChanged()
        if (first) ready(this.#client.server)
        await this.#serve(registration)
        // Backs off if servers evict the worker again and again, such as two stores behind one address.
        shortRegistrations = clock.monotonic() - begun < registration.leaseMs ? shortRegistrations + 1 : 0
        if (shortRegistrations > 0) await this.#client.backOff(shortRegistrations, this.#draining.signal)
      }
    } finally {
      for (const executor of executors.values()) await executor.stop?.()
      await this.#runner.stop()
    }
  }

  #register(first: boolean): Promise<Registration | null> {
    const {
      name,
      queues,
      labels,
      handlers = [],
      functions = [],
      functionsOnly,
      capacity,
      version,
      key,
      proves,
      log,
    } = this.#options
    const calls = { ...(functions.length > 0 && { functions }), ...(functionsOnly === true && { functions_only: true }) }
    const body = { name, queues, labels, handlers, ...calls, capacity, version }
    const signal = this.#draining.signal
    return register({ client: this.#client, key, body, log, signal, first, ...(proves !== undefined && { proves }) })
  }

  /** Claims and runs tasks under one registration, until the worker drains or is evicted. */
  async #serve(registration: Registration): Promise<void> {
    const { clock, log, servers, functionsOnly, stallMs = STALL_LIMIT_MS } = this.#options
    const { id, token, heartbeatMs, leaseMs } = registration
    const onEvicted = (): void => this.#evict(registration)
    const claims = new ClaimLoop({
      registration,
      client: this.#client,
      tasks: this.#tasks,
      folders: this.#folders,
      clock,
      log,
      signal: AbortSignal.any([registration.ended, this.#draining.signal]),
      onAssigned: (task) => this.#start(task, connection),
      onEvicted,
    })
    const connection = this.#connect(registration, claims)
    // Functions run in this process and freeze with it; other child processes do not belong to the worker.
    const stopGuard = functionsOnly === true ? () => {} : startFreezeGuard(leaseMs)
    const stopHeartbeat = startHeartbeat({ servers, id, token, everyMs: heartbeatMs, stallMs }, (message) =>
      "stop" in message ? this.#tasks.requestStops(message.stop) : onEvicted(),
    )
    try {
      await claims.run(connection.reporter)
      if (registration.ended.aborted) await this.#awaitAbandoned()
      else await this.#drain(registration)
    } finally {
      stopHeartbeat()
      stopGuard()
      registration.end()
    }
  }

  #connect(registration: Registration, claims: ClaimLoop): Connection {
    const { clock, log, objects } = this.#options
    const common = { client: this.#client, clock, log }
    const reporter = new Reporter(registration, {
      ...common,
      onRejected: (task) => this.#tasks.abandonTask(task),
      onAccepted: (task) => this.#tasks.remove(task),
      claimable: () => claims.claimable(),
      onAssigned: (assignments) => claims.assign(assignments),
    })
    const logs = new LogShipper(registration, { ...common, localPath: (key) => objects.localPath(key) })
    return { registration, reporter, logs }
  }

  /** Runs a task, or releases it if the worker is draining. */
  #start(task: AssignedTask, connection: Connection): void {
    if (this.#draining.signal.aborted) {
      task.running = false
      connection.reporter.released(task)
    } else void this.#runner.run(task, connection)
  }

  #evict(registration: Registration): void {
    if (registration.ended.aborted) return
    this.#options.log.warn({ worker: registration.id }, "this worker was evicted; stopping its tasks and registering again")
    registration.end()
    this.#tasks.abandon(this.#tasks.ids)
  }

  /** Waits until no task of an ended registration is running. */
  async #awaitAbandoned(): Promise<void> {
    while (this.#tasks.running > 0) await this.#tasks.changed()
    this.#tasks.clear()
  }

  /** Lets running tasks finish, reports the last results and deregisters. */
  async #drain(registration: Registration): Promise<void> {
    await this.#finishRunning(registration)
    await this.#deregister(registration)
  }

  async #finishRunning(registration: Registration): Promise<void> {
    const { clock, graceMs } = this.#options
    const cancelGrace = clock.after(graceMs, () => this.#tasks.stopAll("shutdown"))
    // A stopped task has the grace period once more before it is killed.
    const cancelTimeout = clock.after(2 * graceMs + SHUTDOWN_MS, () =>
      this.#giveUp(registration, "tasks did not end in time; when the lease expires they are claimed by others"),
    )
    while (this.#tasks.running > 0 && !registration.ended.aborted) await this.#tasks.changed(registration.ended)
    cancelGrace()
    cancelTimeout()
  }

  async #deregister(registration: Registration): Promise<void> {
    const { clock, log } = this.#options
    const { id, token, ended } = registration
    const cancelTimeout = clock.after(SHUTDOWN_MS, () =>
      this.#giveUp(registration, "no server accepted the last results in time; these tasks count as lost and will be retried"),
    )
    while (this.#tasks.size > 0 && !ended.aborted) await this.#tasks.changed(ended)
    if (!ended.aborted) {
      await this.#client
        .json({ method: "DELETE", path: `/workers/${id}`, key: token, signal: ended })
        .catch((error: unknown) => log.warn({ error: messageOf(error) }, "failed to deregister; the lease will expire"))
    }
    cancelTimeout()
  }

  /** Ends the registration with its remaining tasks unreported. */
  #giveUp(registration: Registration, message: string): void {
    if (this.#tasks.size > 0) this.#options.log.warn({ tasks: this.#tasks.size }, message)
    registration.end()
  }
}
