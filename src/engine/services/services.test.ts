import { expect, test, vi } from "vitest"
import { createServices, type Services, type ServicesOptions } from "./services.ts"
import { inlineEvaluator } from "../gate/evaluator.ts"
import type { RunId } from "../../core/model/ids.ts"
import { type RowState, planRetry } from "../../core/rules/runs/retry-plan.ts"
import { workflow } from "../../core/testing.ts"
import { systemClock, systemRandom } from "../system.ts"
import { StoreUnavailable } from "../../store/contract/errors.ts"
import type { TaskRow } from "../../store/contract/store.ts"

/** Services over a store whose changes fail after the commit may have succeeded. */
const setup = () => {
  const wake = vi.fn<() => void>()
  const unavailable = (): Promise<never> => Promise.reject(new StoreUnavailable("ork.db", "the connection was lost"))
  const reads: { [name: string | symbol]: () => Promise<unknown> } = {
    getWorkflow: () => WORKFLOW,
    currentTime: () => Promise.resolve(0),
  }
  const store = new Proxy({}, { get: (_, name) => reads[name] ?? unavailable })
  const services = createServices({
    store: store as ServicesOptions["store"],
    engine: {} as ServicesOptions["engine"],
    objects: {} as ServicesOptions["objects"],
    evaluator: inlineEvaluator,
    clock: systemClock,
    random: systemRandom,
    log: { info: () => {}, warn: () => {}, error: () => {} },
    dataDir: "",
    wake,
  })
  return { services, wake }
}

const compiled = {
  name: "etl",
  params: [],
  schedules: [{ cron: "@daily", timezone: "UTC", catchup: "skip", overlap: "allow" }],
}
const WORKFLOW = Promise.resolve({ id: 1, versionId: 1, compiled })
const TASK = { runId: "", name: "a", path: "", waitingOn: null } as unknown as TaskRow
const DEFINITION = { workflow: compiled, hash: "", source: "" } as unknown as Parameters<Services["workflows"]["deploy"]>[0]
const DAY = { workflow: "etl", from: "2026-01-01T00:00:00Z", to: "2026-01-01T12:00:00Z", plan: false, maxActiveRuns: null }

const FAN = { foreach: { lit: [1, 2] }, reference: "list" }

const CHANGES: [string, (services: Services) => Promise<unknown>][] = [
  ["overriding an outcome", ({ runs }) => runs.overrideOutcome(TASK, { status: "success", reason: "checked" })],
  ["creating a job", ({ jobs }) => jobs.create([])],
  ["updating a job", ({ jobs }) => jobs.update("id", { priority: 1 })],
  ["cancelling a job", ({ jobs }) => jobs.cancel("id")],
  ["deleting a job", ({ jobs }) => jobs.delete("id")],
  ["updating a queue", ({ updateQueue }) => updateQueue("default", { paused: true })],
  ["deploying a workflow", ({ workflows }) => workflows.deploy(DEFINITION)],
  ["removing a workflow", ({ workflows }) => workflows.remove("etl")],
  ["pausing a workflow", ({ workflows }) => workflows.setPaused("etl", true)],
  ["backfilling a workflow", ({ workflows }) => workflows.backfill(DAY)],
]

test.each(CHANGES)("%s wakes the loop also when the store fails, because the commit may have succeeded", async (_, change) => {
  const { services, wake } = setup()
  await expect(change(services)).rejects.toThrow("the connection was lost")
  expect(wake).toHaveBeenCalledOnce()
})

test("the plan of a retry lists a thousand names, and the number of all others once", async () => {
  const others = Array.from({ length: 1100 }, (_, i) => `task${i}`)
  const flow = workflow({ each: { fan: FAN }, ...Object.fromEntries(others.map((name) => [name, {}])) })
  const failed = { path: "", status: "failed", skipReason: null } as const
  const states: RowState[] = flow.nodes.map((_, node) =>
    node === 0
      ? { ...failed, node, kind: "fan", childrenCreated: 2, total: 2 }
      : { ...failed, node, kind: "task", childrenCreated: 0, total: null },
  )
  const plan = planRetry(flow, { id: "r", private: false }, states, {})
  const instances = [
    { node: 0, path: "0", status: "success" },
    { node: 0, path: "1", status: "failed" },
  ]
  const store = { getRun: async () => ({ versionId: 1 }), getVersion: async () => flow, listInstances: async () => instances }
  const engine = { planRetry: async () => plan }
  const { runs } = createServices({ store, engine } as unknown as ServicesOptions)
  const { again, kept } = await runs.planRetry("r" as RunId, {})
  expect(again).toEqual(["each[1]", ...others.slice(0, 999), "and 101 more"])
  expect(kept).toEqual(["each[0]"])
})
