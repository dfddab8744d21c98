import { existsSync, readFileSync } from "node:fs"
import { describe, expect, it, onTestFinished } from "vitest"
import { type Change, fenceOf } from "../../core/model/change.ts"
import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import { newHolderId, newRunId, uuidv7 } from "../../core/model/ids.ts"
import { workflow } from "../../core/testing.ts"
import { systemClock as clock, systemRandom as random } from "../../engine/system.ts"
import { Database } from "./connection/database.ts"
import { DEFAULT_JOB_RETRY } from "../../core/rules/jobs/jobs.ts"
import { JOB_DEFAULTS, type NewJob } from "../contract/jobs.ts"
import { openSqlite, type SqliteStore } from "./sqlite.ts"
import { otherProcess, tempFile } from "./testing.ts"

const open = async (path: string): Promise<SqliteStore> => {
  const store = await openSqlite({ path, clock, random })
  await store.migrate()
  onTestFinished(() => store.close())
  return store
}

const flow = workflow({ a: {}, b: { after: ["a"] } })

const put = (store: SqliteStore) => store.putWorkflow({ compiled: flow, hash: "h", source: "", deploy: true })

const runOf = (version: { workflowId: number; versionId: number }) => ({
  id: newRunId(clock.now(), random.hex128()),
  workflowId: version.workflowId,
  versionId: version.versionId,
  trigger: "manual" as const,
  params: {},
  priority: null,
  logicalDate: null,
  idempotencyKey: null,
  private: false,
  workingDir: null,
})

/** Creates runs and executes them for ever. Prints the id of each acknowledged run and the row of each finished task. */
const WORKER = `
  const store = await openSqlite({ path, clock, random })
  const flow = workflow({ a: {}, b: { after: ["a"] } })
  const version = await store.putWorkflow({ compiled: flow, hash: "h", source: "", deploy: true })
  const holder = newHolderId(clock.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "server", name: "other", leaseMs: 1000, process: "", runId: null })
  let changes = []
  for (;;) {
    const { workflowId, versionId } = version
    const made = store.createRuns([{ id: newRunId(clock.now(), random.hex128()), workflowId, versionId, trigger: "manual", params: {},
      priority: null, logicalDate: null, idempotencyKey: null, private: false, workingDir: null }])
    const batch = { holder, changes, work: { lanes: ["q:default"], maxClaims: 10 }, gate: { lanes: ["g"], maxClaims: 0 } }
    const { claims, rejected } = await store.advance(batch)
    if (rejected.length > 0) throw new Error("rejected")
    say("run " + (await made)[0].run.id)
    for (const { row } of changes) say("ended " + row)
    changes = claims.map(({ row, attemptId }) => ({ kind: "finish", row, attemptId, status: "success",
      result: { state: "success", startedAt: clock.now(), finishedAt: clock.now() } }))
  }`

describe("the SQLite store", () => {
  it("rejects the retry of an attempt whose run another process has removed", async () => {
    const path = tempFile()
    const [store, other] = [await open(path), await open(path)]
    const version = await store.putWorkflow({ compiled: workflow({ a: {} }), hash: "one", source: "", deploy: true })
    const holder = newHolderId(clock.now(), random.hex128())
    await store.registerHolder({ id: holder, kind: "server", name: "s", leaseMs: 1000, process: "", runId: null })
    const [created] = await store.createRuns([runOf(version)])
    const none = { lanes: [], maxClaims: 0 }
    const { claims } = await store.advance({
      holder,
      changes: [],
      work: { lanes: ["q:default"], maxClaims: 1 },
      gate: none,
    })
    const fence = fenceOf(claims[0]!)
    const advance = (on: SqliteStore, change: Change) => on.advance({ holder, changes: [change], work: none, gate: none })
    const result = { state: "failed", startedAt: null, finishedAt: clock.now() } as const
    await advance(other, { ...fence, kind: "finish", status: "failed", result })
    await other.removeRun(created!.run.id, 0)
    expect(await other.removeRun(created!.run.id, 500)).toBe(true)
    const { rejected } = await advance(store, { ...fence, kind: "retry", delayMs: 0, lost: false, result })
    expect(rejected.map(({ attemptId }) => attemptId)).toEqual([fence.attemptId])
  })

  it("commits calls of one tick together", async () => {
    const store = await open(":memory:")
    const version = await put(store)
    const before = store.commits
    const made = await Promise.all(Array.from({ length: 20 }, () => store.createRuns([runOf(version)])))
    expect(made.flat().every(({ created }) => created)).toBe(true)
    expect(store.commits - before).toBe(1)
  })

  it("rolls back only the call that fails, not others of the same tick", async () => {
    const store = await open(":memory:")
    const version = await put(store)
    const calls = [
      store.createRuns([runOf(version)]),
      store.createRuns([runOf({ ...version, versionId: 77 })]),
      store.createRuns([runOf(version)]),
    ]
    expect((await Promise.allSettled(calls)).map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"])
    expect(await store.listRuns({ limit: 9 })).toHaveLength(2)
  })

  it("keeps everything acknowledged, and nothing half-written, when its process is killed", async () => {
    const path = tempFile()
    const store = await open(path)
    const acknowledged: string[] = []
    for (let kills = 1; kills <= 3; kills++) {
      const other = otherProcess(path, WORKER)
      for (let line = await other.lines.next(); acknowledged.length < kills * 60; line = await other.lines.next())
        acknowledged.push(String(line.value))
      await other.kill()
    }
    const runs = await store.listRuns({ limit: 100_000 })
    const known = new Set(runs.map(({ id }) => `run ${id}`))
    const tasks = (await Promise.all(runs.map(({ id }) => store.listTasks({ runId: id, limit: 9 })))).flat()
    for (const { row, status } of tasks) if (status === "success") known.add(`ended ${row}`)
    expect(acknowledged.filter((line) => !known.has(line))).toEqual([])
    for (const run of runs) {
      const [a, b] = tasks.filter(({ runId }) => runId === run.id)
      expect(b!.upstreamPending).toBe(a!.status === "success" ? 0 : 1)
      expect(run.status).toBe(b!.status === "success" ? "success" : "running")
    }
    const db = new Database(path)
    expect(db.all("PRAGMA integrity_check")).toEqual([["ok"]])
    db.close()
  })

  it("shares its file with busy processes without an error about a lock", async () => {
    const path = tempFile()
    const store = await open(path)
    const version = await put(store)
    const others = [otherProcess(path, WORKER), otherProcess(path, WORKER)]
    for (const other of others) await other.lines.next()
    for (let i = 0; i < 40; i++) {
      const [made] = await store.createRuns([runOf(version)])
      expect(await store.getRun(made!.run.id)).toMatchObject({ id: made!.run.id })
    }
    for (const other of others) {
      expect(other.process.exitCode).toBeNull()
      await other.kill()
    }
  })

  it("is woken by commits of other processes, not by its own", async () => {
    const path = tempFile()
    const store = await open(path)
    const version = await put(store)
    let wakes = 0
    const woken = new Promise<void>((resolve) => store.onWake(() => (wakes++, resolve())))
    const { run } = (await store.createRuns([runOf(version)]))[0]!
    otherProcess(
      path,
      `const store = await openSqlite({ path, clock, random })
       await store.requestCancel(${JSON.stringify(run.id)}, "cancel")
       await store.close()`,
    )
    await woken
    expect(wakes).toBe(1)
    expect(await store.getRun(run.id)).toMatchObject({ cancelling: "cancel" })
  })

  it("wakes other processes for calls of functions only when it leaves some to them", async () => {
    const path = tempFile()
    const store = await open(path)
    const call = (name: string, after: string[] = []) => ({ executor: FUNCTION_EXECUTOR, function: name, after })
    const compiled = workflow({ a: call("own"), b: call("own", ["a"]), c: call("other", ["b"]) })
    const version = await store.putWorkflow({ compiled, hash: "h", source: "", deploy: true })
    const holder = newHolderId(clock.now(), random.hex128())
    await store.registerHolder({ id: holder, kind: "server", name: "own", leaseMs: 1000, process: "", runId: null })
    await store.createRuns([runOf(version)])
    const wakes = (): number => Number(readFileSync(`${path}.wake`, "utf8").split(" ")[1])
    const turn = async (changes: Change[]): Promise<Change[]> => {
      const claim = { lanes: ["f:*|own"], maxClaims: 9 }
      const { claims } = await store.advance({ holder, changes, work: claim, gate: { lanes: ["g"], maxClaims: 0 } })
      const result = { state: "success", startedAt: clock.now(), finishedAt: clock.now() } as const
      return claims.map((each) => ({ ...fenceOf(each), kind: "finish", status: "success", result }))
    }
    const before = wakes()
    const second = await turn(await turn([]))
    expect(second).toHaveLength(1)
    expect(wakes()).toBe(before)
    expect(await turn(second)).toEqual([])
    expect(wakes()).toBe(before + 1)
  })
})

describe("a commit that creates a job and claims it", () => {
  const setup = async () => {
    const path = tempFile()
    const store = await open(path)
    const holder = newHolderId(clock.now(), random.hex128())
    await store.registerHolder({ id: holder, kind: "server", name: "own", leaseMs: 1000, process: "", runId: null })
    const newJob = (delayMs: number | null = null): NewJob => ({
      ...JOB_DEFAULTS,
      id: uuidv7(clock.now(), random.hex128()),
      name: "resize",
      queue: "default",
      payload: null,
      priority: 5,
      dependencies: [],
      retryPolicy: DEFAULT_JOB_RETRY,
      task: { command: { shell: "true", vars: [] } },
      delayMs,
    })
    const wakes = (): string => (existsSync(`${path}.wake`) ? readFileSync(`${path}.wake`, "utf8") : "")
    const turn = () =>
      store.advance({ holder, changes: [], work: { lanes: ["q:*"], maxClaims: 2 }, gate: { lanes: ["g"], maxClaims: 1 } })
    return { store, newJob, wakes, turn }
  }

  it("does not wake other processes", async () => {
    const { store, newJob, wakes, turn } = await setup()
    const creating = store.createJobs([newJob(), newJob()])
    expect((await turn()).claims).toHaveLength(2)
    expect(await creating).toHaveLength(2)
    expect(wakes()).toBe("")
  })

  it("wakes them when it leaves jobs to them", async () => {
    const { store, newJob, wakes, turn } = await setup()
    const creating = store.createJobs([newJob(), newJob(), newJob()])
    expect((await turn()).claims).toHaveLength(2)
    await creating
    expect(wakes()).not.toBe("")
  })

  it("wakes them for a job that starts later: this process may be gone then", async () => {
    const { store, newJob, wakes, turn } = await setup()
    const creating = store.createJobs([newJob(1000)])
    expect((await turn()).claims).toEqual([])
    await creating
    expect(wakes()).not.toBe("")
  })
})

describe("an attempt claimed from this store", () => {
  const setup = async () => {
    const path = tempFile()
    const [store, other] = [await open(path), await open(path)]
    await store.createRuns([runOf(await put(store))])
    const holder = newHolderId(clock.now(), random.hex128())
    await store.registerHolder({ id: holder, kind: "server", name: "mine", leaseMs: 1000, process: "", runId: null })
    const turn = async (by: SqliteStore, changes: Change[], limit = 0) =>
      await by.advance({
        holder,
        changes,
        work: { lanes: ["q:default"], maxClaims: limit },
        gate: { lanes: ["g"], maxClaims: 0 },
      })
    const [claim] = (await turn(store, [], 1)).claims
    const fence = fenceOf(claim!)
    const started: Change = { ...fence, kind: "started", at: clock.now() }
    const result = { state: "success", startedAt: clock.now(), finishedAt: clock.now() } as const
    const end: Change = { ...fence, kind: "finish", status: "success", result }
    const statusesOf = ({ events }: { events: { status: string }[] }): string[] => events.map(({ status }) => status)
    return { store, other, turn, fence, started, end, statusesOf }
  }

  it("finishes although another process has reported its start, which is not emitted again", async () => {
    const { store, other, turn, started, end, statusesOf } = await setup()
    expect(statusesOf(await turn(other, [started]))).toEqual(["running"])
    const ended = await turn(store, [end])
    expect(ended.rejected).toEqual([])
    expect(statusesOf(ended)).toEqual(["success"])
  })

  it("is rejected without effect once another process has finished it", async () => {
    const { store, other, turn, fence, end } = await setup()
    await turn(other, [end])
    const late = await turn(store, [end], 9)
    expect(late.rejected).toMatchObject([{ row: fence.row, attemptId: fence.attemptId }])
    expect(late.events.map(({ task, status }) => `${task} ${status}`)).toEqual(["b dispatched"])
  })

  it("emits its start and finish, reported in one batch or two", async () => {
    const { store, turn, started, end, statusesOf } = await setup()
    expect(statusesOf(await turn(store, [started]))).toEqual(["running"])
    expect(statusesOf(await turn(store, [started, end]))).toEqual(["success"])
  })
})

describe("the server of a file", () => {
  const SERVER = `
    const store = await openSqlite({ path, clock, random })
    say(await store.becomeServer())
    setInterval(() => {}, 1000)`

  it("is one process, which other processes recognise whatever their process ids mean, until it is killed", async () => {
    const path = tempFile()
    const store = await open(path)
    const server = otherProcess(path, SERVER)
    expect(await server.lines.next()).toMatchObject({ value: "true" })
    expect(await store.becomeServer()).toBe(false)
    await server.kill()
    expect(await store.becomeServer()).toBe(true)
    expect(await store.becomeServer()).toBe(true)
  })

  it("gives its place up when it closes", async () => {
    const path = tempFile()
    const [first, second] = [await openSqlite({ path, clock, random }), await open(path)]
    expect([await first.becomeServer(), await second.becomeServer()]).toEqual([true, false])
    await first.close()
    expect(await second.becomeServer()).toBe(true)
  })
})
