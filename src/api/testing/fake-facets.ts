// The facets of a server's store in memory, beside a real store for runs and tasks. For the tests of the API alone.

import { detectCycle, dependencyStatus, isTerminalJob } from "../../core/jobs.ts"
import type { Catalog, ScheduleRow, VersionRow, WorkflowRow } from "../../store/catalog.ts"
import type { EventLog, LoggedEvent } from "../../store/event-log.ts"
import type { Insight } from "../../store/insight.ts"
import type { JobRefusal, JobRow, JobStore } from "../../store/job-store.ts"
import type { AuditRow, KeyRow, KeyStore } from "../../store/key-store.ts"
import type { NoticeStore } from "../../store/notice-store.ts"
import type { QueueRow, QueueStore } from "../../store/queue-store.ts"
import type { ServerStore } from "../../store/server-store.ts"
import type { Store, StoreEvent } from "../../store/store.ts"
import { compareEventIds } from "../event-id.ts"

/** Fakes only the facets that the store does not have yet. */
export const withFakeFacets = (store: Store, now: () => string): ServerStore => {
  const lacks = (method: keyof ServerStore): boolean => !(method in store)
  return {
    ...store,
    ...(lacks("getWorkflow") && { ...fakeCatalog(store, now), listRuns: fakeListRuns(store) }),
    ...(lacks("readEvents") && fakeEventLog(store)),
    ...(lacks("createJobs") && fakeJobs(now)),
    ...(lacks("createKey") && fakeKeys(now)),
    ...(lacks("takeNotices") && fakeNotices()),
    ...(lacks("putQueue") && fakeQueues()),
    ...(lacks("markTask") && fakeInsight()),
  } as ServerStore
}

const fakeListRuns =
  (store: Store): Store["listRuns"] =>
  async ({ trigger, createdAfter, createdBefore, ...query }) => {
    const found = await store.listRuns({ ...query, limit: 1000 })
    return found
      .filter((run) => trigger === undefined || run.trigger === trigger)
      .filter((run) => run.createdAt >= (createdAfter ?? "") && run.createdAt < (createdBefore ?? "~"))
      .slice(0, query.limit)
  }

const fakeInsight = (): Insight => ({
  markTask: async () => "done",
  limitHolders: async () => [],
  stats: async () => ({ runs: { pending: 0, running: 0 }, ready: [], running: 0, oldestReadyMs: null, databaseBytes: 0 }),
})

const fakeCatalog = (store: Store, now: () => string): Catalog & Pick<Store, "putWorkflow"> => {
  const rows = new Map<string, WorkflowRow>()
  const versions = new Map<string, VersionRow[]>()
  const schedules = (): ScheduleRow[] =>
    [...rows.values()].flatMap((row) =>
      row.compiled.schedules.map((spec, position) => ({
        id: row.id * 100 + position,
        workflowId: row.id,
        workflow: row.name,
        versionId: row.versionId,
        position,
        spec,
        paused: row.paused,
        nextAt: null,
        lastTickAt: null,
      })),
    )
  return {
    async putWorkflow(input) {
      const known = rows.get(input.compiled.name)
      if (input.ifNew === true && known !== undefined) {
        return { workflowId: known.id, versionId: known.versionId, version: known.version, outcome: "exists" as const }
      }
      const stored = await store.putWorkflow(input)
      const { compiled, hash, source } = input
      const at = now()
      const { version, versionId } = stored
      rows.set(compiled.name, {
        id: stored.workflowId,
        name: compiled.name,
        version,
        versionId,
        hash,
        source,
        compiled,
        paused: false,
        createdAt: rows.get(compiled.name)?.createdAt ?? at,
        updatedAt: at,
      })
      const history = versions.get(compiled.name) ?? []
      if (stored.outcome !== "same") history.unshift({ version, versionId, hash, source, createdAt: at })
      versions.set(compiled.name, history)
      return stored
    },
    async listWorkflows({ search, tag, after, limit, runs }) {
      const found = [...rows.values()]
        .filter((row) => search === undefined || row.name.includes(search))
        .filter((row) => tag === undefined || row.compiled.tags.includes(tag))
        .filter((row) => after === undefined || row.name > after)
        .toSorted((a, b) => (a.name < b.name ? -1 : 1))
        .slice(0, limit)
      return await Promise.all(
        found.map(async (workflow) => ({
          workflow,
          lastRuns: await store.listRuns({ workflow: workflow.name, limit: runs }),
          nextAt: null,
        })),
      )
    },
    getWorkflow: async (name) => rows.get(name) ?? null,
    listVersions: async ({ name, before, limit }) =>
      (versions.get(name) ?? []).filter((row) => before === undefined || row.version < before).slice(0, limit),
    removeWorkflow: async (name) => rows.delete(name),
    async setWorkflowPaused({ name, paused }) {
      const row = rows.get(name)
      if (row !== undefined) row.paused = paused
      return row !== undefined
    },
    listSchedules: async ({ workflow, after, limit }) =>
      schedules()
        .filter((row) => (workflow === undefined || row.workflow === workflow) && (after === undefined || row.id > after))
        .slice(0, limit),
    dueSchedules: async () => [],
    nextTickMs: async () => null,
    fireTicks: async () => [],
    activeRunsOf: async () => [],
  }
}

const fakeEventLog = (store: Store): EventLog & Pick<Store, "advance" | "createRuns"> => {
  const events: LoggedEvent[] = []
  let batch = 0
  const add = (found: readonly StoreEvent[]): void => {
    if (found.length === 0) return
    batch += 1
    events.push(...found.map((event, place) => ({ ...event, id: `${batch}.${place}` })))
  }
  return {
    async advance(changes) {
      const advanced = await store.advance(changes)
      add(advanced.events)
      return advanced
    },
    async createRuns(runs) {
      const made = await store.createRuns(runs)
      const fresh = made.filter((each) => each.created)
      add(fresh.map(({ run }) => ({ type: "run", runId: run.id, status: run.status, at: run.createdAt })))
      return made
    },
    async readEvents({ after, runId, limit }) {
      const end = events.at(-1)?.id ?? "0.0"
      if (after === null) return { events: [], cursor: end, gap: false }
      const found = events
        .filter((event) => compareEventIds(event.id, after) > 0 && (runId === undefined || event.runId === runId))
        .slice(0, limit)
      return { events: found, cursor: found.at(-1)?.id ?? end, gap: false }
    },
    trimEvents: async () => 0,
  }
}

const fakeJobs = (now: () => string): JobStore => {
  const jobs = new Map<string, JobRow>()
  const edges = () => new Map([...jobs].map(([id, row]) => [id, row.dependencies]))
  const statuses = () => new Map([...jobs].map(([id, row]) => [id, row.status]))
  const statusOf = (dependencies: readonly string[]) => {
    const state = dependencyStatus({ dependencies }, statuses())
    return state === "SATISFIED" ? ("READY" as const) : state === "WAITING" ? ("PENDING" as const) : ("BLOCKED" as const)
  }
  const refuse = (id: string, dependencies: readonly string[], known: ReadonlySet<string>): JobRefusal | null => {
    const cycle = detectCycle(id, dependencies, edges())
    if (cycle.has_cycle) return { refused: "cycle", path: cycle.cycle_path }
    const missing = dependencies.find((each) => !jobs.has(each) && !known.has(each))
    return missing === undefined ? null : { refused: "missing_dependency", id, dependency: missing }
  }
  return {
    async createJobs(made) {
      const known = new Set(made.map((job) => job.id))
      for (const job of made) {
        if (jobs.has(job.id)) return { refused: "exists", id: job.id }
        const refused = refuse(job.id, job.dependencies, known)
        if (refused !== null) return refused
      }
      return made.map((job) => {
        const at = now()
        const row: JobRow = {
          ...job,
          row: jobs.size + 1,
          status: statusOf(job.dependencies),
          createdAt: at,
          updatedAt: at,
          attemptCount: 0,
          error: null,
          exitCode: null,
          output: null,
          worker: null,
          attemptId: null,
          availableAt: null,
          startedAt: null,
          finishedAt: null,
        }
        jobs.set(job.id, row)
        return row
      })
    },
    getJob: async (id) => jobs.get(id) ?? null,
    async updateJob(id, change) {
      const row = jobs.get(id)
      if (row === undefined) return { refused: "not_found" }
      if (isTerminalJob(row.status)) return { refused: "terminal", status: row.status }
      if (change.dependencies !== undefined) {
        const refused = refuse(id, change.dependencies, new Set())
        if (refused !== null) return refused
        if (row.status !== "PENDING") return { refused: "not_pending" }
      }
      return Object.assign(row, change, { updatedAt: now() })
    },
    async deleteJob(id) {
      if (!jobs.has(id)) return { refused: "not_found" }
      if ([...jobs.values()].some((row) => row.dependencies.includes(id))) return { refused: "has_dependents" }
      jobs.delete(id)
      return null
    },
    async cancelJob(id) {
      const row = jobs.get(id)
      if (row === undefined) return { refused: "not_found" }
      if (isTerminalJob(row.status)) return { refused: "terminal", status: row.status }
      return Object.assign(row, { status: "FAILED", error: "cancelled", finishedAt: now() })
    },
    searchJobs: async ({ filter, limit, after }) =>
      [...jobs.values()]
        .filter(
          (row) =>
            (filter.queue === undefined || row.queue === filter.queue) &&
            (filter.status === undefined || row.status === filter.status) &&
            row.priority >= (filter.priorityMin ?? 1) &&
            row.priority <= (filter.priorityMax ?? 10) &&
            row.createdAt >= (filter.createdAfter ?? "") &&
            row.createdAt < (filter.createdBefore ?? "~"),
        )
        .toSorted((a, b) => (a.createdAt === b.createdAt ? (a.id < b.id ? -1 : 1) : a.createdAt > b.createdAt ? -1 : 1))
        .filter(
          (row) =>
            after === undefined || row.createdAt < after.createdAt || (row.createdAt === after.createdAt && row.id > after.id),
        )
        .slice(0, limit),
  }
}

const fakeKeys = (now: () => string): KeyStore => {
  const keys = new Map<string, KeyRow>()
  const audit: AuditRow[] = []
  return {
    async createKey({ id, name, scopes, hash }) {
      const row = { id, name, scopes, createdAt: now(), lastUsedAt: null }
      keys.set(hash, row)
      return row
    },
    findKey: async (hash) => keys.get(hash) ?? null,
    listKeys: async () => [...keys.values()],
    async removeKey(id) {
      const found = [...keys].find(([, row]) => row.id === id)
      return found !== undefined && keys.delete(found[0])
    },
    async touchKeys(ids) {
      for (const row of keys.values()) if (ids.includes(row.id)) row.lastUsedAt = now()
    },
    async appendAudit(entries) {
      for (const entry of entries) audit.push({ ...entry, seq: audit.length + 1, at: now() })
    },
    listAudit: async ({ before, limit }) =>
      audit
        .toReversed()
        .filter((row) => before === undefined || row.seq < before)
        .slice(0, limit),
  }
}

const fakeNotices = (): NoticeStore => ({
  takeNotices: async () => [],
  putOffNotice: async () => undefined,
  removeNotices: async () => undefined,
  nextNoticeMs: async () => null,
})

const fakeQueues = (): QueueStore => {
  const queues = new Map<string, QueueRow>()
  return {
    getQueue: async (name) => queues.get(name) ?? null,
    listQueues: async () => [...queues.values()],
    async putQueue(name, settings) {
      const before = queues.get(name) ?? {
        name,
        concurrency: null,
        rate: null,
        paused: false,
        ready: 0,
        running: 0,
        oldestReadyMs: null,
      }
      const row = { ...before, ...settings }
      queues.set(name, row)
      return row
    },
  }
}
