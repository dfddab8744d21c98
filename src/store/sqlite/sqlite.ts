// The store on SQLite: one connection. Writes go through the writer, which commits them in groups; reads use the connection
// directly, between transactions, so they see committed data only.

import { iso } from "../../core/model/ports.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import { takeAuditEntry } from "../contract/audit-scope.ts"
import type { NewAuditEntry } from "../contract/keys.ts"
import type { ServerStore } from "../contract/server-store.ts"
import type { TransactionStore } from "../contract/transactions.ts"
import type { LeaseHolderRow } from "../contract/store.ts"
import { advance, type Cursors } from "./advance/advance.ts"
import { catalog } from "./admin/catalog.ts"
import { requestCancel, setPaused } from "./runs/control.ts"
import { createRuns } from "./runs/create.ts"
import { asInvalidValue, Database, rejectDamaged } from "./connection/database.ts"
import { eventLog, appendEvents } from "./advance/event-log.ts"
import { adopt, readClaims } from "./admin/read-claims.ts"
import { InFlightRows } from "./cache/in-flight.ts"
import {
  extendWorkerLeases,
  listInFlight,
  listAbandonedRuns,
  listHolders,
  reapHolders,
  registerHolder,
  deregisterHolder,
  renewLease,
  workerToken,
} from "./admin/lease-holders.ts"
import { statsStore } from "./admin/stats.ts"
import { jobStore } from "./jobs/jobs.ts"
import { createJobsIn } from "./jobs/create-in.ts"
import { functionStore } from "./functions/functions.ts"
import { recordInTransaction } from "./functions/record-in-transaction.ts"
import { appendAudit, keyStore } from "./admin/keys.ts"
import { newClaimCursor } from "./claim/lane-sets.ts"
import { migrate, MIGRATIONS } from "./schema/migrations.ts"
import { dump } from "./transfer/dump.ts"
import { isBlank, load } from "./transfer/load.ts"
import { rejectMoved } from "./transfer/moved.ts"
import { notificationStore } from "./admin/notifications.ts"
import { runView } from "./runs/run-view.ts"
import { queueStore } from "./admin/queues.ts"
import { removableRuns, isMessageUsed, removeRun, trimLimits } from "./runs/retention.ts"
import { retryRun } from "./runs/retry.ts"
import { readSecret } from "./admin/secret.ts"
import { RunInfoCache } from "./cache/run-info.ts"
import { findRunId, getRun, listRuns } from "./runs/run-reads.ts"
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
import { type Access, newTx, type StoreContext, type Tx } from "./tx.ts"
import { Workflows } from "./cache/workflows.ts"
import { sizeWal } from "./connection/wal.ts"
import { WakeDecision } from "./connection/wake-decision.ts"
import { openWake } from "./connection/wake-file.ts"
import { type ServerLock, serverLock } from "./connection/server-lock.ts"
import { leaseGuard } from "./admin/lease-guard.ts"
import { pathTriggerStore } from "./admin/path-triggers.ts"
import { triggerStore } from "./admin/triggers.ts"
import { putWorkflow } from "./admin/workflows.ts"
import { whileBusy, Writer } from "./connection/writer.ts"

export interface SqliteOptions {
  /** A file, or `:memory:`. */
  path: string
  clock: Clock
  random: Random
  /** Returns whether the process of a holder is certainly gone. By default no process is. */
  isDead?: (holder: LeaseHolderRow) => boolean
  /** An open connection to the file, which stays open when the store closes. By default the store opens one of its own. */
  connection?: Database
  /** Schedules a flush of the write queue. The default, `setImmediate`, lets calls of one tick share a commit. */
  schedule?: (flush: () => void) => void
}

export interface SqliteStore extends ServerStore {
  /** Number of committed transactions. */
  readonly commits: number
}

/** Path of a database in memory, which no other process uses. */
const IN_MEMORY = ":memory:"

export const openSqlite = async (options: SqliteOptions): Promise<SqliteStore> => {
  const parts = await openParts(options)
  const { context, writer, perform, wakes } = parts
  const access = accessTo(parts)
  const cursors: Cursors = { work: newClaimCursor(), gate: newClaimCursor() }
  return {
    ...operations(access, options.isDead ?? (() => false)),
    ...wholeDatabase(parts, options),
    ...userTransactions(parts, options),
    kind: "sqlite",
    usesLeases: false,
    ...(options.path !== IN_MEMORY && { guardLease: leaseGuard(options.path) }),
    advanceConcurrency: { maxConcurrent: 1, minBatch: 0 },
    commitsTogether: ["jobs", "runs"],
    get commits() {
      return writer.commits
    },
    getVersion: (versionId) => access.read(({ workflows }) => workflows.get(versionId)),
    getLoadedVersion: (versionId) => context.workflows.get(versionId),
    advance: (batch) =>
      writer
        .writeNow(() => perform((tx) => advance(tx, batch, cursors)))
        .catch((error: unknown) => {
          throw asInvalidValue(error)
        }),
    onWake: wakes.onWake,
  }
}

/** Parts of a store, which live as long as it. */
interface Parts extends Writes {
  context: StoreContext
  wakes: Wakes
  /** Makes one process the server of the file; null: in memory. */
  lock: ServerLock | null
}

const openParts = async (options: SqliteOptions): Promise<Parts> => {
  const { path, random, schedule = setImmediate } = options
  const context = await openContext(options)
  const wakes = openWakes(path, random)
  const lock = path === IN_MEMORY ? null : serverLock(path)
  return { context, wakes, lock, ...openWrites(context, { wakeOthers: wakes.wakeOthers, schedule }) }
}

const accessTo = ({ context, writer, perform }: Parts): Access => {
  const access: Access = {
    read: (work) =>
      writer.alone === null ? whileBusy(context.db, () => work(context)) : writer.alone.then(() => access.read(work)),
    write: (work) => {
      const entryOf = takeAuditEntry()
      return writer.write(() => perform(entryOf === null ? work : (tx) => withEntry(tx, work, entryOf)))
    },
  }
  return access
}

/** Wakes the engines that use the database. */
interface Wakes {
  /** Wakes those of other processes. */
  wakeOthers: () => void
  /** Wakes those of this process. */
  wakeHere: () => void
  onWake: (listener: () => void) => void
  close: () => void
}

const openWakes = (path: string, random: Random): Wakes => {
  const file = path === IN_MEMORY ? null : openWake(path, random.hex128())
  const listeners: (() => void)[] = []
  return {
    wakeOthers: () => file?.touch(),
    wakeHere: () => {
      for (const listener of listeners) listener()
    },
    onWake: (listener) => {
      listeners.push(listener)
      file?.listen(listener)
    },
    close: () => file?.close(),
  }
}

/** Operations on the database as a whole. */
const wholeDatabase = ({ context, writer, wakes, lock }: Parts, { path, connection }: SqliteOptions) => {
  const { db } = context
  return {
    schemaVersion: MIGRATIONS.length,
    migrate: () =>
      whileBusy(db, () => {
        migrate(db)
        rejectMoved(db)
      }),
    isBlank: () => whileBusy(db, () => isBlank(db)),
    dump: (use, options) => dump(path, use, options),
    load: (source) => load(context, source),
    becomeServer: () =>
      whileBusy(db, () => {
        rejectDamaged(db)
        return lock === null || lock.acquire()
      }),
    close: async () => {
      await writer.close()
      wakes.close()
      lock?.release()
      if (connection === undefined && db.open) db.close()
    },
  } satisfies Partial<ServerStore>
}

/** Operations in transactions of the user's code. */
const userTransactions = ({ context, writer, perform, wakes }: Parts, { path }: SqliteOptions): TransactionStore => {
  const { wakeHere, wakeOthers } = wakes
  const wakeAll = (): void => {
    wakeOthers()
    wakeHere()
  }
  return {
    createJobsIn: createJobsIn({ context, path, perform, wakeAll }),
    recordInTransaction: recordInTransaction({ context, writer, perform, committed: wakeHere }),
  }
}

/** Runs an operation and adds the entry of its change to the audit log. */
const withEntry = <T>(tx: Tx, work: (tx: Tx) => T, change: (result: unknown) => NewAuditEntry | null): T => {
  const result = work(tx)
  const entry = change(result)
  if (entry !== null) appendAudit(tx, [entry])
  return result
}

const openContext = async ({ path, clock, random, connection }: SqliteOptions): Promise<StoreContext> => {
  const db = connection ?? new Database(path)
  if (connection === undefined) await whileBusy(db, () => db.configure())
  return { db, clock, random, workflows: new Workflows(db), runs: new RunInfoCache(db), inFlight: new InFlightRows() }
}

interface Writes {
  writer: Writer
  /** Runs an operation inside the writer's transaction. */
  perform<T>(work: (tx: Tx) => T): T
}

/** Opens the writer. */
const openWrites = (
  context: StoreContext,
  { wakeOthers, schedule }: { wakeOthers: () => void; schedule: (flush: () => void) => void },
): Writes => {
  let wake = new WakeDecision()
  /** The operations of the transaction. */
  let performed: Tx[] = []
  const writer = new Writer(context.db, {
    begun: () => {
      wake = new WakeDecision()
      performed = []
    },
    committing: () => {
      appendEvents(context.db, performed)
      // Kept until the next transaction, they would outlive the young generation of the heap.
      performed = []
    },
    committed: () => {
      if (wake.wakesOthers) wakeOthers()
      sizeWal(context.db, writer.commits)
    },
    rolledBack: () => {
      context.workflows.clear()
      context.runs.clear()
      context.inFlight.clear()
    },
    schedule,
  })
  return {
    writer,
    perform: (work) => {
      const tx = newTx(context, new WakeDecision(wake))
      const value = work(tx)
      tx.limits.save()
      tx.queues.save()
      wake = tx.wake
      performed.push(tx)
      return value
    },
  }
}

/** Operations that are one read or one write each. */
const operations = (access: Access, isDead: (holder: LeaseHolderRow) => boolean) => {
  const { read, write } = access
  return {
    ...catalog(access),
    ...eventLog(access),
    ...functionStore(access),
    ...statsStore(access),
    ...jobStore(access),
    ...keyStore(access),
    ...notificationStore(access),
    ...runView(access),
    ...queueStore(access),
    ...triggerStore(access),
    ...pathTriggerStore(access),
    putWorkflow: (input) => write((tx) => putWorkflow(tx, input)),
    getSecret: () => readSecret(access),
    createRuns: (runs) => write((tx) => createRuns(tx, runs)),
    requestCancel: (runId, reason, options) => write((tx) => requestCancel(tx, runId, reason, options)),
    setPaused: (runId, paused) => write((tx) => setPaused(tx, runId, paused)),
    retryRun: (runId, plan) => write((tx) => retryRun(tx, runId, plan)),
    registerHolder: (holder) => write((tx) => registerHolder(tx, holder)),
    renewLease: (id, leaseMs) => write((tx) => renewLease(tx, id, leaseMs)),
    deregisterHolder: (id) => write((tx) => deregisterHolder(tx, id)),
    extendWorkerLeases: () => write(extendWorkerLeases),
    listInFlight: (id) => read((s) => listInFlight(s, id)),
    listHolders: () => read(listHolders),
    workerToken: (id) => read((s) => workerToken(s, id)),
    reapHolders: (limit, { workers } = { workers: true }) => write((tx) => reapHolders(tx, { limit, workers }, isDead)),
    listAbandonedRuns: (limit) => read((s) => listAbandonedRuns(s, limit)),
    readClaims: (fences) => read((s) => readClaims(newTx(s), fences)),
    adopt: (holder, fences) => write((tx) => adopt(tx, holder, fences)),
    getRun: (runId) => read((s) => getRun(s, runId)),
    findRunId: (query) => read((s) => findRunId(s, query)),
    listRuns: (query) => read((s) => listRuns(s, query)),
    listTasks: (query) => read((s) => listTasks(s, query)),
    getTask: (query) => read((s) => getTask(s, query)),
    findPaths: (query) => read((s) => findPaths(s, query)),
    listRowStates: (runId) => read((s) => listRowStates(s, runId)),
    listInnerRowStates: (query) => read((s) => listInnerRowStates(s, query)),
    listAttempts: (row) => read((s) => listAttempts(s, row)),
    childOutputs: (query) => read((s) => childOutputs(s, query)),
    trimCache: (limit) => write((tx) => trimCache(tx, limit)),
    cachedKeysInUse: (keys) => read((s) => cachedKeysInUse(s, keys, iso(s.clock.now()))),
    getCached: (query) => read((s) => getCached(s, query, iso(s.clock.now()))),
    pastDurations: (workflow) => read((s) => pastDurations(s, workflow)),
    removableRuns: (query) => read((s) => removableRuns(s, query)),
    removeRun: (runId, maxRows, endedBefore) => write((tx) => removeRun(tx, runId, maxRows, endedBefore)),
    isMessageUsed: (key) => read((s) => isMessageUsed(s, key)),
    trimLimits: (limit) => write((tx) => trimLimits(tx, limit)),
  } satisfies Partial<ServerStore>
}
