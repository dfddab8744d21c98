// The fixture of store tests: a fresh store under a manual clock, and short functions for the operations of an engine.

import { createHash } from "node:crypto"
import { onTestFinished } from "vitest"
import type { Change, Output } from "../../core/model/change.ts"
import { type HolderId, newHolderId, newRunId, type RunId } from "../../core/model/ids.ts"
import type { Json } from "../../core/values/json.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import type { AttemptState, TaskStatus } from "../../core/model/status.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type {
  AdvanceResult,
  Claim,
  JobClaim,
  NewRun,
  RunRow,
  Store,
  StoredVersion,
  TaskClaim,
  TaskRow,
} from "../contract/store.ts"

export interface Opened<S extends Store = Store> {
  store: S
  close(): Promise<void>
  /** Reports this holder's process as dead, for stores without leases. */
  kill?: (holder: HolderId) => void
  /** Returns how often the store has woken those of other processes; without it, no other process uses the database. */
  wakes?: () => Promise<number>
}

export type Open<S extends Store = Store> = (options: { clock: Clock; random: Random }) => Promise<Opened<S>>

export const BEGIN = Date.parse("2026-03-01T00:00:00.000Z")
export const LEASE_MS = 10_000
export const WORKER_LEASE_MS = 15_000
export const WORK = "q:default"
export const GATE = "g"

export interface TestClock extends Clock {
  pass(ms: number): void
}

/** Creates a clock that advances only through `pass`. */
const testClock = (): TestClock => {
  let now = BEGIN
  return { now: () => now, monotonic: () => now, after: () => () => undefined, pass: (ms) => void (now += ms) }
}

/** Creates a generator that returns the same numbers for the same seed. */
export const seededRandom = (seed: number): Random => {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
  const word = (): string =>
    Math.floor(next() * 4_294_967_296)
      .toString(16)
      .padStart(8, "0")
  return { next, hex128: () => word() + word() + word() + word() }
}

export interface TurnInput {
  holder?: HolderId
  changes?: Change[]
  /** Maximum number of claims; none by default. */
  claim?: number
  gate?: number
  lanes?: string[]
  gateLanes?: string[]
}

export type World<S extends Store = Store> = Awaited<ReturnType<typeof setup<S>>>

export const setup = async <S extends Store>(open: Open<S>, seed = 1) => {
  const clock = testClock()
  const random = seededRandom(seed)
  const { store, close, kill, wakes } = await open({ clock, random })
  let closed: Promise<void> | null = null
  const closeOnce = (): Promise<void> => (closed ??= close())
  onTestFinished(closeOnce)
  const holder = newHolderId(clock.now(), random.hex128())

  const register = async (id: HolderId, name: string): Promise<HolderId> => {
    await store.registerHolder({ id, kind: "server", name, leaseMs: LEASE_MS, process: name, runId: null })
    return id
  }
  await register(holder, "first")

  const newRun = (version: StoredVersion, input: Partial<NewRun> = {}): NewRun => ({
    id: newRunId(clock.now(), random.hex128()),
    workflowId: version.workflowId,
    versionId: version.versionId,
    trigger: "manual",
    params: {},
    priority: null,
    logicalDate: null,
    idempotencyKey: null,
    private: false,
    workingDir: null,
    ...input,
  })

  const deploy = (compiled: CompiledWorkflow): Promise<StoredVersion> =>
    store.putWorkflow({
      compiled,
      hash: createHash("sha256").update(JSON.stringify(compiled)).digest("hex"),
      source: "",
      deploy: true,
    })

  const turn = async (input: TurnInput = {}): Promise<Turn> =>
    byKind(
      await store.advance({
        holder: input.holder ?? holder,
        changes: input.changes ?? [],
        work: { lanes: input.lanes ?? [WORK], maxClaims: input.claim ?? 0 },
        gate: { lanes: input.gateLanes ?? [GATE], maxClaims: input.gate ?? 0 },
      }),
    )

  return {
    store,
    clock,
    random,
    holder,
    newRun,
    deploy,
    turn,
    /** Closes the store; the end of the test does so too. */
    close: closeOnce,

    /** Registers another server. */
    join: (name: string): Promise<HolderId> => register(newHolderId(clock.now(), random.hex128()), name),

    /** Registers a worker. */
    employ: async (name: string): Promise<HolderId> => {
      const id = newHolderId(clock.now(), random.hex128())
      await store.registerHolder({
        id,
        kind: "worker",
        name,
        leaseMs: WORKER_LEASE_MS,
        process: "",
        runId: null,
        capabilities: { queues: ["default"], labels: ["gpu"], handlers: [], capacity: 4, version: "1" },
        tokenHash: `hash of ${name}`,
      })
      return id
    },

    /** Returns how often the store has woken those of other processes. */
    wakes: async (): Promise<number> => {
      if (wakes === undefined) throw new Error("no other process uses the database")
      return wakes()
    },

    /** Makes this holder dead; the first one stays alive. */
    die: async (id: HolderId): Promise<void> => {
      if (kill !== undefined) return kill(id)
      clock.pass(LEASE_MS + 1)
      await store.renewLease(holder, LEASE_MS)
    },

    start: async (compiled: CompiledWorkflow, input: Partial<NewRun> = {}): Promise<RunRow> => {
      const version = await deploy(compiled)
      return (await store.createRuns([newRun(version, input)]))[0]!.run
    },

    /** Claims every ready row of the work lane, or of the gate's lane. */
    claim: async (limit = 1000): Promise<TaskClaim[]> => (await turn({ claim: limit })).claims,
    claimJobs: async (limit = 1000): Promise<JobClaim[]> => (await turn({ claim: limit })).jobs,
    gate: async (limit = 1000): Promise<TaskClaim[]> => (await turn({ gate: limit })).gateClaims,

    /** Returns a finish at the clock's time. */
    ended: (claim: Fenced, status: "success" | "failed" | "cancelled" = "success", output?: Json): Change => ({
      kind: "finish",
      row: claim.row,
      attemptId: claim.attemptId,
      status,
      result: resultOf(clock, status, output),
    }),

    again: (claim: Fenced, delayMs: number, state: AttemptState = "failed"): Change => ({
      kind: "retry",
      row: claim.row,
      attemptId: claim.attemptId,
      delayMs,
      lost: state === "lost",
      result: { ...resultOf(clock, state), error: "it broke", exitCode: 3 },
    }),

    run: async (id: RunId): Promise<RunRow> => (await store.getRun(id))!,
    task: async (runId: RunId, name: string, path = ""): Promise<TaskRow> => (await store.getTask({ runId, name, path }))!,
    statuses: async (runId: RunId): Promise<Record<string, TaskStatus>> => {
      const tasks = await store.listTasks({ runId, limit: 100_000 })
      return Object.fromEntries(tasks.map(({ name, path, status }) => [path === "" ? name : `${name}[${path}]`, status]))
    },
  }
}

/** Result of `advance`, with the claims of tasks and of jobs apart. */
export type Turn = Omit<AdvanceResult, "claims"> & { claims: TaskClaim[]; jobs: JobClaim[] }

export const byKind = (advanced: AdvanceResult): Turn => ({
  ...advanced,
  claims: advanced.claims.filter((claim) => claim.kind !== "job"),
  jobs: advanced.claims.filter((claim) => claim.kind === "job"),
})

type Fenced = Pick<Claim, "row" | "attemptId">

const resultOf = (clock: Clock, state: AttemptState, output?: Json) => ({
  state,
  startedAt: clock.now(),
  finishedAt: clock.now(),
  ...(output === undefined ? {} : { output: { inline: output } satisfies Output }),
})

/** Returns the fence of a claim. */
export const fence = ({ row, attemptId }: Fenced) => ({ row, attemptId })

/** Returns the change that creates all instances at once. */
export const expandAll = (claim: Fenced, items: Json[], limits: { key: string; cap: number }[] = []): Change => ({
  ...fence(claim),
  kind: "expand",
  total: items.length,
  offset: 0,
  items,
  lane: WORK,
  priority: 5,
  limits,
})

export const names = (world: World, claims: readonly TaskClaim[]): string[] =>
  claims.map((claim) => {
    const { name } = world.store.getLoadedVersion(claim.versionId).nodes[claim.node]!
    return claim.path === "" ? name : `${name}[${claim.path}]`
  })
