import { expect, test } from "vitest"
import type { Grid } from "../api/types.ts"
import { cellWords, gridColumns, gridRows } from "./model.ts"

const run = (id: string, seconds: number | null, ended = true): Grid["runs"][number] => ({
  id,
  number: 1,
  version: 1,
  status: seconds === null ? "pending" : ended ? "success" : "running",
  trigger: "manual",
  logical_date: null,
  created_at: "1970-01-01T00:00:00.000Z",
  started_at: seconds === null ? null : "1970-01-01T00:00:00.000Z",
  idle_ms: 0,
  finished_at: seconds === null || !ended ? null : new Date(seconds * 1000).toISOString(),
  cells: [],
})

const task = (name: string, group: string | null = null): Grid["tasks"][number] => ({
  name,
  group,
  fan_out: false,
  hook: false,
})

const GRID: Grid = {
  workflow: "w",
  tasks: [task("a"), task("g"), task("z"), task("g.x", "g"), task("g.y", "g")],
  runs: [run("new", null), run("now", 0, false), run("long", 10), run("short", 0.1)],
}

test("the rows of a group follow it and are omitted when it is closed", () => {
  expect(gridRows(GRID, new Set()).map(({ name, depth, index }) => [name, depth, index])).toEqual([
    ["a", 0, 0],
    ["g", 0, 1],
    ["g.x", 1, 3],
    ["g.y", 1, 4],
    ["z", 0, 2],
  ])
  expect(gridRows(GRID, new Set(["g"])).map(({ name }) => name)).toEqual(["a", "g", "z"])
})

test("columns are oldest first with heights by duration, and a running run grows", () => {
  expect(gridColumns(GRID, 5000).map(({ id, height }) => [id, height])).toEqual([
    ["short", 0.06],
    ["long", 1],
    ["now", 0.5],
    ["new", 0.06],
  ])
})

test("a cell states its status, instances and duration", () => {
  expect(cellWords({ status: "failed", total: 4, failed: 1, duration_ms: 2500 }, "failed")).toBe(
    "failed, 4 instances, 1 failed, 2.5 s",
  )
  expect(cellWords({ status: "pending", duration_ms: null }, "pending")).toBe("pending")
})
