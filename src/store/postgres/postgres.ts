// The store on Postgres 14 and newer, in a schema of its own. Its connections have one purpose each: two run `advance`, one listens, one
// reads workflow versions, the others write or read. Several stores on one database share its work.

import type { Clock, Random } from "../../core/model/ports.ts"
import { StoreUnavailable } from "../contract/errors.ts"
import { takeAuditEntry } from "../contract/audit-scope.ts"
import type { NewAuditEntry } from "../contract/keys.ts"
import type { ServerStore } from "../contract/server-store.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { NewRun, RunRow, Store } from "../contract/store.ts"
import { type Access, bindNow, newTx, type StoreContext, type Tx } from "./tx.ts"
import { catalog } from "./admin/catalog.ts"
import { requestCancel, setPaused } from "./runs/control.ts"
import { createRuns } from "./runs/create.ts"
import { eventLog, appendEvents } from "./advance/event-log.ts"
import { CallBatcher } from "./connection/call-batcher.ts"
import { adopt, readClaims } from "./admin/read-claims.ts"
import {
  listAbandonedRuns,
  deregisterHolder,
  extendWorkerLeases,
  listHolders,
  listInFlight,
  reapHolders,
  registerHolder,
  renewLease,
  workerToken,
} from "./admin/lease-holders.ts"
import { statsStore } from "./admin/stats.ts"
import { StoreClock } from "./connection/store-clock.ts"
import { functionStore } from "./functions/functions.ts"
import { UserTransactions } from "./functions/record-in-transaction.ts"
import { jobStore } from "./jobs/jobs.ts"
import { createJobsIn } from "./jobs/create-in.ts"
import { appendAudit, keyStore } from "./admin/keys.ts"
import { AdvanceConnections, ADVANCE_CONCURRENCY } from "./advance/advance-connections.ts"
import { FIRST_HINTS } from "./advance/hints.ts"
import { JointCreations } from "./advance/joint-creations.ts"
import { Cache } from "./cache/cache.ts"
import { migrate, MIGRATIONS } from "./schema/migrations.ts"
import { dump } from "./transfer/dump.ts"
import { isBlank, load } from "./transfer/load.ts"
import { notificationStore } from "./admin/notifications.ts"
import { Listener, WAKE_STORES } from "./connection/listener.ts"
import { runView } from "./runs/run-view.ts"
import { queueStore } from "./admin/queues.ts"
import { removableRuns, isMessageUsed, removeRun, trimLimits } from "./runs/retention.ts"
import { retryRun } from "./runs/retry.ts"
import { readSecret } from "./admin/secret.ts"
import { findRunId, getRuns, listRuns } from "./runs/run-reads.ts"
import { INDEXED_PLANS } from "./connection/connection.ts"
import { pipelined } from "./connection/statement.ts"
import {
  cachedKeysInUse,
  trimCache,
  getCached,
  findPaths,
  getTask,
  childOutputs,
  listAttempts,
  listInnerRowStates,
  listRowStates,
  listTasks,
  pastDurations,
} from "./runs/task-reads.ts"
import { ConnectionPool } from "./connection/connection-pool.ts"
import { leaseGuard } from "./admin/lease-guard.ts"
import { pathTriggerStore } from "./admin/path-triggers.ts"
import { triggerStore } from "./admin/triggers.ts"
import { putWorkflow } from "./admin/workflows.ts"
import { Workflows } from "./cache/workflows.ts"

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database` */
  url: string
  /** Clock of tests. The database's own when not given. */
  clock?: Clock
  random: Random
  /** Schema of the tables; `ork` when not given. */
  schema?: string
  /** Milliseconds without a reply after which a connection is checked; 3,000 when not given. */
  silenceMs?: number
}

const MAX_WRITERS = 3
const MAX_READERS = 4
/** Longest channel name of NOTIFY. */
const MAX_CHANNEL = 63
/** Task rows of runs that are created together. */
const MAX_CREATED = 10_000
/** Runs that are read together. */
const MAX_READ = 1_000

export const openPostgres = async (options: PostgresOptions): Promise<ServerStore> => {
  const parts = openParts(options)
  const { pools, workflows, context, advancing, listener, target } = parts
  const access = accessTo(parts)
  const transactions = new UserTransactions(target, access.read)
  return {
    ...operations(access, options.random),
    ...jobStore(access, parts.creations),
    ...runOperations(parts, access),
    ...statsStore(access, (runs) => advancing.reportClosed(runs)),
    kind: "postgres",
    usesLeases: true,
    advanceConcurrency: ADVANCE_CONCURRENCY,
    commitsTogether: ["jobs"],
    migrate: () => migrate(pools.writers, target),
    becomeServer: async () => true,
    schemaVersion: MIGRATIONS.length,
    isBlank: () => pools.readers.read((connection) => isBlank(connection, target)),
    dump: (use) => dump(pools.readers, target, use),
    load: (source) => load(pools.readers, target, source),
    createJobsIn: createJobsIn(access, target.schema),
    recordInTransaction: transactions.record,
    close: async () => {
      await Promise.all([listener, advancing, transactions, ...Object.values(pools)].map((part) => part.close()))
    },
    getVersion: (versionId) => workflows.compiled(versionId),
    getLoadedVersion: (versionId) => workflows.getLoaded(versionId),
    // A clock of tests stands still while the event loop is blocked.
    ...(options.clock === undefined && { guardLease: leaseGuard(target) }),
    renewLease: (id, leaseMs) => pools.leases.transaction((tx) => renewLease(newTx(tx, context), id, leaseMs)),
    advance: (batch) => advancing.advance(batch),
    onWake: (wake) => void listener.onWake(wake),
  }
}

/** Parts of a store, which live as long as it. */
type Parts = ReturnType<typeof openParts>

const openParts = ({ url, clock, random, schema = "ork", silenceMs }: PostgresOptions) => {
  const target = { url, schema, ...(silenceMs !== undefined && { silenceMs }) }
  const pools = {
    readers: new ConnectionPool(target, MAX_READERS, { application: "ork" }),
    writers: new ConnectionPool(target, MAX_WRITERS, { application: "ork", settings: INDEXED_PLANS }),
    // A pool of its own: callers that need a version may hold a connection of another pool.
    versions: new ConnectionPool(target, 1, { application: "ork" }),
    // A pool of its own: a lease must not expire while long transactions hold the connections of the writers.
    leases: new ConnectionPool(target, 1, { application: "ork lease" }),
  }
  const workflows = new Workflows(pools.versions)
  const context: StoreContext = { clock: new StoreClock(clock, random), workflows, cache: new Cache() }
  const wakeParams = { channel: `ork_${schema}`.slice(0, MAX_CHANNEL), sender: random.hex128() }
  const listener = new Listener(target, wakeParams.channel, wakeParams.sender)
  const creations = new JointCreations()
  const advancing = new AdvanceConnections(target, { context, wakeParams, creations, shared: { hints: FIRST_HINTS } })
  return { target, pools, workflows, context, wakeParams, listener, creations, advancing }
}

const accessTo = ({ pools, workflows, context, wakeParams }: Parts): Access => {
  /** Sends the events, NOTIFY and COMMIT together. */
  const transact = <T>(work: (tx: Tx) => Promise<T>, { notify }: { notify: boolean }): Promise<T> =>
    pools.writers.transaction(async (transaction) => {
      const tx = newTx(transaction, context)
      const result = await work(tx)
      const logged = pipelined(appendEvents(tx))
      const notified = notify ? tx.run(WAKE_STORES, wakeParams) : null
      void tx.commit()
      await logged
      await notified
      return result
    })
  const audited = <T>(work: (tx: Tx) => Promise<T>): ((tx: Tx) => Promise<T>) => {
    const entryOf = takeAuditEntry()
    if (entryOf === null) return work
    return async (tx) => {
      const result = await work(tx)
      const entry = entryOf(result)
      if (entry !== null) await appendAudit(tx, [entry])
      return result
    }
  }
  return {
    read: (work) => pools.readers.read((connection) => work(bindNow(connection, context.clock.now()))),
    write: (work) => transact(audited(work), { notify: false }),
    unauditedWrite: (work) => transact(work, { notify: false }),
    writeAndNotify: (work) => transact(audited(work), { notify: true }),
    workflows,
  }
}

type AuditedRun = NewRun & { change?: (result: unknown) => NewAuditEntry | null }

/** Creates runs and adds the entries of their changes to the audit log. */
const createWithEntries = async (tx: Tx, runs: readonly AuditedRun[]): ReturnType<typeof createRuns> => {
  const results = await createRuns(tx, runs)
  await appendAudit(
    tx,
    runs.flatMap(({ change }, i) => change?.([results[i]]) ?? []),
  )
  return results
}

const runOperations = ({ workflows }: Parts, { read, writeAndNotify }: Access): Pick<Store, "createRuns" | "getRun"> => {
  const rowCount = ({ versionId }: NewRun): number =>
    workflows.isLoaded(versionId) ? workflows.getLoaded(versionId).nodes.length : 1
  const creations = new CallBatcher<AuditedRun, { run: RunRow; created: boolean }>(
    async (runs) => {
      await workflows.load(runs.map((run) => run.versionId))
      const create = () => writeAndNotify((tx) => createWithEntries(tx, runs))
      // The commit may have succeeded although its reply was lost. A second call finds the runs by their ids.
      return create().catch((error: unknown) => {
        if (!(error instanceof StoreUnavailable)) throw error
        return create()
      })
    },
    MAX_CREATED,
    rowCount,
  )
  const reads = new CallBatcher<RunId, RunRow | null>((ids) => read((connection) => getRuns(connection, ids)), MAX_READ)
  return {
    createRuns: (runs) => {
      const change = takeAuditEntry()
      return creations.add(change === null ? runs : runs.map((run, i) => (i === 0 ? { ...run, change } : run)))
    },
    getRun: async (runId) => (await reads.add([runId]))[0] ?? null,
  }
}

/** Operations that are one read or one transaction each. */
const operations = (access: Access, random: Random) => {
  const { read, write, unauditedWrite, writeAndNotify, workflows } = access
  return {
    ...catalog(access),
    ...eventLog(access),
    ...functionStore(access),
    ...keyStore(access),
    ...notificationStore(access),
    ...runView(access),
    ...queueStore(access),
    ...triggerStore(access),
    ...pathTriggerStore(access),
    putWorkflow: (input) => (input.deploy ? writeAndNotify : write)((tx) => putWorkflow(tx, input)),
    getSecret: () => write((tx) => readSecret(tx, random)),
    requestCancel: (runId, reason, options) => writeAndNotify((tx) => requestCancel(tx, runId, reason, options)),
    setPaused: (runId, paused) => writeAndNotify((tx) => setPaused(tx, runId, paused)),
    retryRun: (runId, plan) => writeAndNotify((tx) => retryRun(tx, runId, plan)),
    registerHolder: (holder) => write((tx) => registerHolder(tx, holder)),
    deregisterHolder: (id) => writeAndNotify((tx) => deregisterHolder(tx, id)),
    extendWorkerLeases: () => write(extendWorkerLeases),
    listInFlight: (id) => read((connection) => listInFlight(connection, id)),
    listHolders: () => read(listHolders),
    workerToken: (id) => read((connection) => workerToken(connection, id)),
    reapHolders: (limit, { workers } = { workers: true }) => writeAndNotify((tx) => reapHolders(tx, { limit, workers })),
    listAbandonedRuns: (limit) => read((connection) => listAbandonedRuns(connection, limit)),
    readClaims: (fences) => unauditedWrite((tx) => readClaims(tx, fences)),
    adopt: (holder, fences) => write((tx) => adopt(tx, holder, fences)),
    findRunId: (query) => read((connection) => findRunId(connection, query)),
    listRuns: (query) => read((connection) => listRuns(connection, query)),
    listTasks: (query) => read((connection) => listTasks(connection, workflows, query)),
    getTask: (query) => read((connection) => getTask(connection, workflows, query)),
    findPaths: (query) => read((connection) => findPaths(connection, workflows, query)),
    listRowStates: (runId) => read((connection) => listRowStates(connection, workflows, runId)),
    listInnerRowStates: (query) => read((connection) => listInnerRowStates(connection, workflows, query)),
    listAttempts: (row) => read((connection) => listAttempts(connection, row)),
    childOutputs: (query) => read((connection) => childOutputs(connection, query)),
    trimCache: (limit) => write((tx) => trimCache(tx, limit)),
    cachedKeysInUse: (keys) => read((connection) => cachedKeysInUse(connection, keys)),
    getCached: (query) => read((connection) => getCached(connection, query)),
    pastDurations: (workflow) => read((connection) => pastDurations(connection, workflows, workflow)),
    removableRuns: (query) => read((connection) => removableRuns(connection, query)),
    removeRun: (runId, maxRows, endedBefore) => write((tx) => removeRun(tx, runId, maxRows, endedBefore)),
    isMessageUsed: (key) => read((connection) => isMessageUsed(connection, key)),
    trimLimits: (limit) => write((tx) => trimLimits(tx, limit)),
  } satisfies Partial<ServerStore>
}
