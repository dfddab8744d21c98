import { Registry } from "prom-client"
import { expect, it } from "vitest"
import { iso } from "../../core/model/ports.ts"
import type { FinishedRun } from "../../store/contract/stats.ts"
import { WorkflowMetrics, type WorkflowMetricsStore } from "./workflow-metrics.ts"

const BEGIN = Date.UTC(2026, 0, 1)

const setup = async ({ lastSuccess }: { lastSuccess?: string } = {}) => {
  const finished: FinishedRun[] = []
  const state = { now: BEGIN, workflows: ["etl"], listed: 0 }
  const store = {
    currentTime: async () => state.now,
    listWorkflows: async () => state.workflows.map((name) => ({ workflow: { name }, lastRuns: [], nextAt: null })),
    listRuns: async () => {
      state.listed++
      return lastSuccess === undefined ? [] : [{ finishedAt: lastSuccess }]
    },
    countActiveRuns: async () => [
      { workflow: "etl", status: "running", count: 2 },
      { workflow: "gone", status: "pending", count: 1 },
    ],
    listFinishedRuns: async ({ after, until }: { after: string; until: string }) =>
      finished.filter(({ finishedAt }) => finishedAt > after && finishedAt <= until),
  } as unknown as WorkflowMetricsStore
  const registry = new Registry()
  const metrics = new WorkflowMetrics(store, registry)
  await metrics.start()
  return {
    state,
    finish: (status: FinishedRun["status"], tookMs: number, workflow = "etl") => {
      const startedAt = iso(state.now - tookMs - 1000)
      finished.push({ workflow, status, startedAt, finishedAt: iso(state.now), idleMs: 1000 })
    },
    lines: async () => {
      await Promise.all([metrics.update(), metrics.update()])
      return (await registry.metrics()).split("\n").filter((line) => line !== "" && !line.startsWith("#"))
    },
  }
}

it("finished runs are counted once, with their duration, when they are surely committed", async () => {
  const { state, finish, lines } = await setup()
  state.now += 1000
  finish("success", 30_000)
  finish("failed", 2000)
  finish("success", 1000, "gone")
  expect((await lines()).join("\n")).not.toContain("ork_workflow_runs_total")
  for (let i = 0; i < 3; i++) {
    state.now += 60_000
    expect(await lines()).toEqual(
      expect.arrayContaining([
        'ork_workflow_runs_total{workflow="etl",status="success"} 1',
        'ork_workflow_runs_total{workflow="etl",status="failed"} 1',
        'ork_workflow_runs_total{workflow="other",status="success"} 1',
        'ork_workflow_run_seconds_sum{workflow="etl",status="success"} 30',
        'ork_workflow_run_seconds_count{workflow="etl",status="failed"} 1',
      ]),
    )
  }
})

it("the last success is that of the store, then that of the runs which finish", async () => {
  const { state, finish, lines } = await setup({ lastSuccess: iso(BEGIN - 3_600_000) })
  const last = async () => (await lines()).find((line) => line.startsWith("ork_workflow_last_success"))
  expect(await last()).toBe(`ork_workflow_last_success_timestamp_seconds{workflow="etl"} ${BEGIN / 1000 - 3600}`)
  state.now += 60_000
  finish("success", 1000)
  state.now += 10_000
  finish("failed", 1000)
  state.now += 10_000
  expect(await last()).toBe(`ork_workflow_last_success_timestamp_seconds{workflow="etl"} ${BEGIN / 1000 + 60}`)
  expect(state.listed).toBe(1)
})

it("a workflow without a success, or that was removed, has no time of the last success", async () => {
  const { state, finish, lines } = await setup()
  expect((await lines()).join("\n")).not.toContain("last_success")
  finish("success", 1000)
  state.now += 60_000
  expect(await lines()).toContain(`ork_workflow_last_success_timestamp_seconds{workflow="etl"} ${BEGIN / 1000}`)
  state.workflows = []
  expect((await lines()).join("\n")).not.toContain("last_success")
})

it("active runs are counted by status; workflows without a label of their own share one", async () => {
  const { lines } = await setup()
  expect(await lines()).toEqual(
    expect.arrayContaining([
      'ork_workflow_active_runs{workflow="etl",status="running"} 2',
      'ork_workflow_active_runs{workflow="other",status="pending"} 1',
    ]),
  )
})
