import { QueryClient } from "@tanstack/react-query"
import { expect, test } from "vitest"
import type { OrkEvent, Page, Run } from "../api/types.ts"
import { LiveCache } from "./apply.ts"

const AT = "2026-11-15T06:00:00.000Z"

const event = (change: Partial<OrkEvent>): OrkEvent => ({
  event: "run",
  run_id: "r1",
  task: null,
  index: null,
  path: null,
  attempt: null,
  status: "success",
  at: AT,
  ...change,
})

const setup = () => {
  const client = new QueryClient()
  const timers: (() => void)[] = []
  const waits: number[] = []
  const asked: string[] = []
  client.invalidateQueries = async (filters) => void asked.push((filters?.queryKey ?? ["everything"]).join("/"))
  const cache = new LiveCache(client, (ms, run) => {
    timers.push(run)
    waits.push(ms)
    return () => undefined
  })
  const run = { id: "r1", status: "running", started_at: AT, finished_at: null, idle_ms: 0, error: null } as Run
  const page: Page<Run> = { items: [run], next_cursor: null, has_more: false }
  client.setQueryData(["runs", {}], { pages: [page], pageParams: [null] })
  client.setQueryData(["run", "r1"], run)
  const shown = () => client.getQueryData<{ pages: Page<Run>[] }>(["runs", {}])!.pages[0]!.items[0]!.status
  return { client, cache, timers, waits, asked, shown }
}

test("shown data is patched at once without a request", () => {
  const { client, cache, asked, shown } = setup()
  cache.apply([event({})])
  expect([shown(), client.getQueryData<Run>(["run", "r1"])!.status]).toEqual(["success", "success"])
  expect(asked).toEqual(["workflows"])
})

test("a new run is fetched at once, and many new runs at a limited rate", () => {
  const { cache, asked, timers } = setup()
  for (let i = 0; i < 50; i++) cache.apply([event({ run_id: `new-${i}`, status: "pending" })])
  expect(asked).toEqual(["runs", "workflows"])
  for (const timer of timers.splice(0)) timer()
  expect(asked).toEqual(["runs", "workflows", "runs", "workflows"])
  for (const timer of timers.splice(0)) timer()
  expect(asked).toHaveLength(4)
})

test("finished tasks change the counts of their run if it is shown", () => {
  const { cache, asked } = setup()
  cache.apply([event({ event: "task", task: "a" }), event({ event: "task", run_id: "other", task: "a" })])
  expect(asked).toEqual(["run/r1", "runs"])
})

test("a gap reloads everything that is shown", () => {
  const { cache, asked } = setup()
  cache.reload()
  expect(asked).toEqual(["everything"])
})

test("a list of many pages is fetched less often, because all pages are fetched", () => {
  const { client, cache, waits } = setup()
  cache.refetchSoon("runs")
  const page = { items: [], next_cursor: null, has_more: false }
  client.setQueryData(["jobs", {}], { pages: Array.from({ length: 4 }, () => page), pageParams: [] })
  cache.refetchSoon("jobs")
  client.setQueryData(["jobs", {}], { pages: Array.from({ length: 40 }, () => page), pageParams: [] })
  cache.stop()
  cache.refetchSoon("jobs")
  expect(waits).toEqual([500, 2000, 5000])
})
