// The store on Postgres 14 and newer, in a schema of its own. One connection belongs to `advance`, one listens, a few serve the
// rest. Several stores on one database share its work.

import type { Clock, Random } from "../../core/model/ports.ts"
import type { ServerStore } from "../contract/server-store.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { NewRun, RunRow } from "../contract/store.ts"
import type { Access } from "./connection/access.ts"
import { catalog } from "./admin/catalog.ts"
import { requestCancel, setPaused } from "./runs/control.ts"
import { createRuns } from "./runs/create.ts"
import { eventLog } from "./advance/event-log.ts"
import { CallBatcher } from "./connection/call-batcher.ts"
import { adopt, readClaims } from "./admin/read-claims.ts"
import {
  forgiveWorkers,
  heldBy,
  listHolders,
  reapHolders,
  registerHolder,
  removeHolder,
  renewHolder,
  workerToken,
} from "./admin/lease-holders.ts"
import { insight } from "./admin/stats.ts"
import { StoreClock } from "./connection/store-clock.ts"
import { jobStore } from "./jobs/jobs.ts"
import { keyStore } from "./admin/keys.ts"
import { Loops, ADVANCE_CONCURRENCY } from "./advance/loops.ts"
import { Cache } from "./cache/cache.ts"
import { migrate } from "./schema/migrations.ts"
import { noticeStore } from "./admin/notifications.ts"
import { Listener, NOTIFY } from "./connection/listener.ts"
import { picture } from "./runs/run-view.ts"
import { queueStore } from "./admin/queues.ts"
import { expiredRuns, removeRun } from "./runs/retention.ts"
import { retryRun } from "./runs/retry.ts"
import { readSecret } from "./admin/secret.ts"
import { getRuns, listRuns } from "./runs/run-reads.ts"
import type { SqlRunner } from "./connection/connection.ts"
import {
  getCached,
  getTask,
  instanceOutputs,
  listAttempts,
  listInner,
  listNodes,
  listTasks,
  pastDurations,
} from "./runs/task-reads.ts"
import { ConnectionPool } from "./connection/connection-pool.ts"
import { Workflows } from "./admin/workflows.ts"

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database` */
  url: string
  /** Tests: the time of everything that is written. The database's own when not given. */
  clock?: Clock
  random: Random
  /** Where the tables lie; `ork` when not given. */
  schema?: string
}

const SHARED = 6
/** Longest name that NOTIFY takes. */
const MAX_CHANNEL = 63
/** Rows of runs that are made together. */
const MAX_CREATED = 10_000
const MAX_READ = 1_000

export const openPostgres = async ({ url, clock, random, schema = "ork" }: PostgresOptions): Promise<ServerStore> => {
  const target = { url, schema }
  const instants = new StoreClock(clock, random)
  const memory = new Cache()
  const shared = new ConnectionPool(target, "ork", SHARED)
  // Of its own: who needs a version may hold one of the shared ones already.
  const versions = new ConnectionPool(target, "ork", 1)
  const workflows = new Workflows(versions, instants)
  const channel = `ork_${schema}`.slice(0, MAX_CHANNEL)
  const self = random.hex128()
  const listener = new Listener(target, channel, self)
  const listening = (): boolean => listener.listening
  const loops = new Loops(target, { workflows, memory, instants, channel, self, listening })
  listener.onNotification(() => loops.stale())

  const read = <T>(work: (session: SqlRunner) => Promise<T>): Promise<T> => shared.use(work)
  const write = <T>(work: (tx: SqlRunner) => Promise<T>): Promise<T> => shared.transaction(work)
  /** A write that may give others something to do. */
  const tell = async <T>(work: (tx: SqlRunner) => Promise<T>): Promise<T> => {
    const result = await shared.transaction(async (tx) => {
      const value = await work(tx)
      await tx.run(NOTIFY, [channel, self])
      return value
    })
    loops.stale()
    return result
  }
  const rowsOf = ({ versionId }: NewRun): number => (workflows.knows(versionId) ? workflows.now(versionId).nodes.length : 1)
  const creations = new CallBatcher<NewRun, { run: RunRow; created: boolean }>(
    async (runs) => {
      await workflows.load(runs.map((run) => run.versionId))
      return tell((tx) => createRuns(tx, instants, workflows, runs))
    },
    MAX_CREATED,
    rowsOf,
  )

  // Waiting for hundreds of runs is one question, not hundreds.
  const runs = new CallBatcher<RunId, RunRow | null>((ids) => read((session) => getRuns(session, ids)), MAX_READ)

  const access: Access = { read, write, writeAndNotify: tell, clock: instants, workflows }
  return {
    ...catalog(access),
    ...eventLog(access),
    ...insight(access, (runs) => loops.closed(runs)),
    ...jobStore(access),
    ...keyStore(access),
    ...noticeStore(read, write, instants),
    ...picture(access),
    ...queueStore(access),
    kind: "postgres",
    leases: true,
    advanceConcurrency: ADVANCE_CONCURRENCY,
    migrate: () => migrate(shared, target),
    close: async () => {
      await Promise.all([listener.close(), loops.close(), shared.close(), versions.close()])
    },
    putWorkflow: (input) => (input.deploy ? tell : write)((tx) => workflows.put(tx, input)),
    secret: () => write((tx) => readSecret(tx, random)),
    compiled: (versionId) => workflows.compiled(versionId),
    compiledNow: (versionId) => workflows.now(versionId),
    advance: (batch) => loops.advance(batch),
    onWake: (wake) => void listener.onWake(wake),
    createRuns: (runs) => creations.add(runs),
    requestCancel: (runId, reason) => tell((tx) => requestCancel(tx, workflows, runId, reason)),
    setPaused: (runId, paused) => tell((tx) => setPaused(tx, instants.now(), runId, paused)),
    retryRun: (runId, plan) => tell((tx) => retryRun(tx, instants.now(), workflows, runId, plan)),
    registerHolder: (holder) => write((tx) => registerHolder(tx, instants.now(), holder)),
    renewLease: (id, leaseMs) => write((tx) => renewHolder(tx, instants.now(), id, leaseMs)),
    deregisterHolder: (id) => tell((tx) => removeHolder(tx, id)),
    extendWorkerLeases: () => write((tx) => forgiveWorkers(tx, instants.now())),
    listInFlight: (id) => read((session) => heldBy(session, id)),
    listHolders: () => read(listHolders),
    workerToken: (id) => read((session) => workerToken(session, id)),
    reapHolders: async (limit, { workers } = { workers: true }) => {
      const reap = (tx: SqlRunner) => reapHolders(tx, instants.now(), { limit, workers })
      return (await tell(reap)).left
    },
    readClaims: (fences) => read((session) => readClaims(session, { memory, workflows, now: instants.now() }, fences)),
    adopt: (holder, fences) => write((tx) => adopt(tx, { memory, workflows, now: instants.now() }, holder, fences)),
    getRun: async (runId) => (await runs.add([runId]))[0] ?? null,
    listRuns: (query) => read((session) => listRuns(session, query)),
    listTasks: (query) => read((session) => listTasks(session, workflows, query)),
    getTask: (query) => read((session) => getTask(session, workflows, query)),
    listNodes: (runId) => read((session) => listNodes(session, workflows, runId)),
    listInner: (query) => read((session) => listInner(session, workflows, query)),
    listAttempts: (row) => read((session) => listAttempts(session, row)),
    instanceOutputs: (query) => read((session) => instanceOutputs(session, query)),
    getCached: (query) => read((session) => getCached(session, instants.now(), query)),
    pastDurations: (workflow) => read((session) => pastDurations(session, workflows, workflow)),
    expiredRuns: (query) => read((session) => expiredRuns(session, instants.now(), query)),
    removeRun: (runId, maxRows) => write((tx) => removeRun(tx, runId, maxRows)),
  }
}
