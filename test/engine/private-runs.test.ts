// Private runs whose `ork run` was killed, beside a server that goes on.

import { describe, expect, it } from "vitest"
import { newHolderId, newRunId } from "../../src/core/model/ids.ts"
import { seededRandom } from "../../src/store/conformance/world.ts"
import { setup } from "./setup.ts"

const FLOW = `
name: local
concurrency: 1
tasks:
  one: { command: x }
  each: { command: x, foreach: [1, 2], retries: 0 }
  nap: { executor: sleep, duration: 1h }
on_cancel: [{ command: x }]
on_exit: [{ command: x, if: "true" }]
`

/** Starts a private run with a task in flight, an expanded fan-out and a waiting task, under a holder of its own. */
const startPrivateRun = async (fixture: Awaited<ReturnType<typeof setup>>) => {
  const { store, clock } = fixture
  const random = seededRandom(2)
  const { version } = await fixture.deploy(FLOW)
  const runId = newRunId(clock.now(), random.hex128())
  const holder = newHolderId(clock.now(), random.hex128())
  await store.registerHolder({ id: holder, kind: "run", name: "ork run", leaseMs: 10_000, process: "killed", runId })
  const { workflowId, versionId } = version
  const request = { params: {}, priority: null, logicalDate: null, idempotencyKey: null, workingDir: null }
  await store.createRuns([{ id: runId, workflowId, versionId, trigger: "manual", private: true, ...request }])
  const gate = { lanes: [`p:${runId}:g`], maxClaims: 9 }
  const nothing = { lanes: [], maxClaims: 0 }
  const { gateClaims: gates } = await store.advance({ holder, changes: [], work: nothing, gate })
  const fenceOf = (kind: "fan" | "task") => {
    const { row, attemptId } = gates.find((claim) => claim.kind === kind)!
    return { row, attemptId }
  }
  const lane = `p:${runId}:w`
  const { claims } = await store.advance({
    holder,
    changes: [
      { ...fenceOf("fan"), kind: "expand", total: 2, offset: 0, items: [1, 2], lane, priority: 5, limits: [] },
      { ...fenceOf("task"), kind: "wait", waitingOn: { kind: "sleep", ms: 3_600_000 }, delayMs: 3_600_000 },
    ],
    work: { lanes: [lane], maxClaims: 1 },
    gate: nothing,
  })
  expect(claims).toHaveLength(1)
  return runId
}

describe("a private run whose `ork run` was killed", () => {
  it("loses its attempts within seconds, which frees their slots", async () => {
    const fixture = await setup()
    const runId = await startPrivateRun(fixture)
    await fixture.pass(10_000)
    expect((await fixture.store.listHolders()).map(({ inFlight }) => inFlight)).toContain(1)
    fixture.deadProcesses.add("killed")
    await fixture.pass(4000)
    expect((await fixture.store.listHolders()).map(({ inFlight }) => inFlight)).not.toContain(1)
    expect(await fixture.task(runId, "one")).toMatchObject({ status: "pending", losses: 1 })
  })

  it("ends when it is cancelled, with its fan-outs and waiting tasks", async () => {
    const fixture = await setup()
    const runId = await startPrivateRun(fixture)
    fixture.deadProcesses.add("killed")
    await fixture.engine.cancel(runId)
    await fixture.pass(1000)
    expect((await fixture.store.getRun(runId))!.status).toBe("cancelled")
  })

  it("ends when it was cancelled before its `ork run` was killed", async () => {
    const fixture = await setup()
    const runId = await startPrivateRun(fixture)
    await fixture.engine.cancel(runId)
    fixture.deadProcesses.add("killed")
    await fixture.pass(10_000)
    expect((await fixture.store.getRun(runId))!.status).toBe("cancelled")
  })

  it("has its hooks run by the server, so that it can be removed", async () => {
    const fixture = await setup()
    const runId = await startPrivateRun(fixture)
    fixture.deadProcesses.add("killed")
    await fixture.engine.cancel(runId)
    await fixture.pass(10_000)
    // The hooks' folder is created in real time, for which the virtual clock does not wait.
    while ((await fixture.store.getRun(runId))!.hooksPending > 0) await fixture.pass(1000)
    expect(await fixture.store.getRun(runId)).toMatchObject({ status: "cancelled", hooksPending: 0 })
    expect(fixture.launched.map(({ task }) => task).toSorted()).toEqual(["on_cancel.0", "on_exit.0"])
    expect(await fixture.store.removeRun(runId, 99)).toBe(true)
  })

  it("keeps its tasks for `ork run --resume` while it is not cancelled", async () => {
    const fixture = await setup()
    const runId = await startPrivateRun(fixture)
    fixture.deadProcesses.add("killed")
    await fixture.pass(10_000)
    expect(fixture.launched).toEqual([])
    expect((await fixture.store.getRun(runId))!.status).toBe("running")
  })

  it("leaves the gate to its `ork run` while that is alive", async () => {
    const fixture = await setup()
    const runId = await startPrivateRun(fixture)
    await fixture.engine.cancel(runId)
    await fixture.pass(1000)
    expect((await fixture.store.getRun(runId))!.status).toBe("running")
  })
})
