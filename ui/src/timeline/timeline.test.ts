import { expect, test } from "vitest"
import { applyEvents } from "../run/events.ts"
import { at, stateOf, taskEvent } from "../run/testing.ts"
import { rangeOf, scrollAfterZoom, stepFor, ticksOf, zoomBy } from "./axis.ts"
import { axisMarks, BREAK_WIDTH, middleOf } from "./axis-marks.ts"
import { criticalInstances, instanceKey } from "./critical-path.ts"
import { breaksOf } from "./breaks.ts"
import { drawingOf, timelineModel } from "./model.ts"
import { rowsOf } from "./rows.ts"
import { axisEnd, scaleOf } from "./scale.ts"
import { Scopes, scopeOf } from "./scopes.ts"
import { segmentsOf, unionOf } from "./segments.ts"

const WITHOUT_BREAKS = { startedAt: 0, idleMs: 0, now: 0 }

const ran = (name: string, from: number, to: number, path = "") => [
  taskEvent(name, "dispatched", from, { path }),
  taskEvent(name, "running", from, { path }),
  taskEvent(name, "success", to, { path }),
]

const NESTED = {
  first: {},
  region: { after: ["first"], executor: "group", fan: true },
  last: { after: ["region"] },
  "region.load": { group: "region" },
  "region.each": { group: "region", after: ["region.load"], fan: true },
}

const nested = () => {
  const state = stateOf(NESTED)
  const events = [
    ...ran("first", 0, 10),
    taskEvent("region", "running", 10, { total: 2, attempt: 0 }),
    ...ran("region.load", 11, 20, "0"),
    ...ran("region.load", 11, 15, "1"),
    ...ran("region.each", 22, 30, "0.0"),
    ...ran("region.each", 21, 25, "0.1"),
    ...ran("region.each", 16, 29, "1.0"),
    taskEvent("region", "success", 30, { attempt: 0 }),
    ...ran("last", 31, 40),
  ]
  applyEvents(state, events, false)
  return state
}

test("a scope is a prefix of a path", () => {
  expect([scopeOf("", 0), scopeOf("1.2", 0), scopeOf("1.2", 1), scopeOf("1.2", 2), scopeOf("1", 2)]).toEqual([
    "",
    "",
    "1",
    "1.2",
    "1",
  ])
})

test("an instance is ready when the last upstream instance of its item has finished, the first of a group when the group's upstream has", () => {
  const state = nested()
  const scopes = new Scopes(state, 0)
  const ready = (name: string, path = "") => scopes.readyAt(state.byName.get(name)!.instances.get(path)!)
  expect(ready("first")).toBe(0)
  expect(ready("region.load", "1")).toBe(10_000)
  expect(ready("region.each", "0.0")).toBe(20_000)
  expect(ready("region.each", "1.0")).toBe(15_000)
  expect(ready("last")).toBe(30_000)
})

test("the critical path follows the last upstream instance of each step, into and out of groups", () => {
  const state = nested()
  const path = criticalInstances(state, new Scopes(state, 0)).map((each) => `${state.nodes[each.node]!.name}[${each.path}]`)
  expect(path).toEqual(["first[]", "region.load[0]", "region.each[0.0]", "last[]"])
})

test("the critical path of an empty run is empty, and it passes through skipped tasks", () => {
  const state = stateOf({ a: {}, b: { after: ["a"] }, c: { after: ["b"] } })
  expect(criticalInstances(state, new Scopes(state, 0))).toEqual([])
  applyEvents(state, [...ran("a", 0, 5), taskEvent("b", "skipped", 6, { attempt: 0 }), ...ran("c", 6, 9)], false)
  expect(criticalInstances(state, new Scopes(state, 0)).map(instanceKey)).toEqual(["0/", "2/"])
})

test("waiting, attempts and retry delays are separate segments", () => {
  const state = stateOf({ a: {} })
  applyEvents(
    state,
    [
      taskEvent("a", "dispatched", 1),
      taskEvent("a", "running", 2),
      taskEvent("a", "pending", 5, { available_at: at(9) }),
      taskEvent("a", "running", 10, { attempt: 2 }),
    ],
    false,
  )
  const [instance] = state.nodes[0]!.instances.values()
  const shown = segmentsOf(instance!, 0, 12_000).map(({ kind, from, to, attempt, open, status }) => [
    kind,
    from,
    to,
    attempt,
    status,
    open,
  ])
  expect(shown).toEqual([
    ["wait", 0, 2000, 1, "pending", false],
    ["run", 2000, 5000, 1, "failed", false],
    ["retry", 5000, 10_000, 2, "pending", false],
    ["run", 10_000, 12_000, 2, "running", true],
  ])
})

test("a waiting segment grows with time, and an instance that is not ready has none", () => {
  const state = stateOf({ a: {} })
  applyEvents(state, [taskEvent("a", "dispatched", 1)], false)
  const [instance] = state.nodes[0]!.instances.values()
  expect(segmentsOf(instance!, 0, 3000)).toMatchObject([{ kind: "wait", from: 0, to: 3000, open: true }])
  expect(segmentsOf({ ...instance!, status: "pending" }, null, 3000)).toEqual([])
})

test("the line of a fan-out covers the times in which any instance runs", () => {
  const state = nested()
  expect(unionOf(state.byName.get("region.each")!.instances.values(), 0)).toEqual([{ from: 16_000, to: 30_000, open: false }])
  expect(unionOf(state.byName.get("region.load")!.instances.values(), 0)).toHaveLength(1)
})

test("a collapsed fan-out marks only the bar of its critical instance", () => {
  const state = nested()
  const model = timelineModel(state, WITHOUT_BREAKS)
  const row = rowsOf(state, new Set(["region.each"])).find(({ id }) => id === "region.each")!
  const { segments, critical } = drawingOf(model, row, 40_000)
  expect(critical).toBe(true)
  expect(segments.map(({ from, to, critical: marked = false }) => [from, to, marked])).toEqual([
    [16_000, 30_000, false],
    [22_000, 30_000, true],
  ])
  const open = rowsOf(state, new Set()).find(({ id }) => id === "region.each")!
  expect(drawingOf(model, open, 40_000).segments.some((segment) => segment.critical)).toBe(false)
})

test("an instance that failed inside a group is drawn as failed only", () => {
  const state = stateOf(NESTED)
  const failed = (path: string) => [
    taskEvent("region.load", "running", 1, { path }),
    taskEvent("region.load", "failed", 5, { path }),
  ]
  applyEvents(state, [taskEvent("region", "running", 0, { total: 2, attempt: 0 }), ...failed("0")], false)
  const row = rowsOf(state, new Set()).find(({ id }) => id === "region.load")!
  const bars = () =>
    drawingOf(timelineModel(state, WITHOUT_BREAKS), row, 9000).segments.map(({ status, from, to }) => [status, from, to])
  expect(bars()).toEqual([["failed", 1000, 5000]])
  applyEvents(state, ran("region.load", 2, 8, "1"), false)
  expect(bars()).toEqual([
    ["success", 2000, 8000],
    ["failed", 1000, 5000],
  ])
})

test("rows follow the graph, with the instances of open fan-outs below them", () => {
  const state = nested()
  expect(rowsOf(state, new Set()).map(({ id, depth, fold }) => [id, depth, fold])).toEqual([
    ["first", 0, null],
    ["region", 0, "open"],
    ["region.load", 1, "open"],
    ["region.load[0]", 2, null],
    ["region.load[1]", 2, null],
    ["region.each", 1, "open"],
    ["region.each[0.0]", 2, null],
    ["region.each[0.1]", 2, null],
    ["region.each[1.0]", 2, null],
    ["last", 0, null],
  ])
  expect(rowsOf(state, new Set(["region"])).map(({ id }) => id)).toEqual(["first", "region", "last"])
})

/** Returns a run of 10 s with a back-off of 3 s, which was retried after an hour. */
const retried = () => {
  const state = stateOf({ a: {}, b: { after: ["a"] } })
  const failed = (from: number, to: number, attempt: number) => [
    taskEvent("b", "running", from, { attempt }),
    taskEvent("b", "failed", to, { attempt }),
  ]
  applyEvents(
    state,
    [
      ...ran("a", 0, 2),
      taskEvent("b", "running", 2),
      taskEvent("b", "pending", 3, { available_at: at(6) }),
      ...failed(6, 10, 2),
      taskEvent("b", "running", 3610, { attempt: 3 }),
      taskEvent("b", "success", 3620, { attempt: 3 }),
    ],
    false,
  )
  return state
}

const HOUR = 3_600_000

test("the break before a retry of the run is the longest time without an attempt; a back-off is none", () => {
  expect(breaksOf(retried(), HOUR, 3_620_000)).toEqual([{ from: 10_000, to: 3_610_000 }])
  expect(breaksOf(retried(), 0, 3_620_000)).toEqual([])
})

test("a break does not count as waiting", () => {
  const state = retried()
  const model = timelineModel(state, { startedAt: 0, idleMs: HOUR, now: 3_620_000 })
  const row = rowsOf(state, new Set()).find(({ id }) => id === "b")!
  expect(drawingOf(model, row, 3_620_000).segments.map(({ kind, from, to }) => [kind, from, to])).toEqual([
    ["run", 2000, 3000],
    ["retry", 3000, 6000],
    ["run", 6000, 10_000],
    ["run", 3_610_000, 3_620_000],
  ])
})

test("a run that was retried and has not begun again has a break without an end", () => {
  const state = stateOf({ a: {} })
  applyEvents(state, [taskEvent("a", "running", 0), taskEvent("a", "failed", 10)], false)
  expect(breaksOf(state, HOUR, 3_610_000)).toEqual([{ from: 10_000, to: Infinity }])
})

test("a break is short on the axis, and times around it keep their distances", () => {
  const breaks = [{ from: 10_000, to: 3_610_000 }]
  const to = axisEnd({ startedAt: 0, finishedAt: 3_620_000, now: 0 }, breaks)
  expect(to).toBeCloseTo(3_620_400)
  const scale = scaleOf({ from: 0, to }, breaks)
  const [pause] = scale.breaks
  expect(pause!.length / scale.length).toBeLessThan(0.06)
  expect(scale.placeOf(4000)).toBe(4000)
  expect(scale.placeOf(3_615_000) - scale.placeOf(3_611_000)).toBeCloseTo(4000)
  expect(scale.placeOf(10_000)).toBe(10_000)
  expect(scale.placeOf(3_610_000)).toBeCloseTo(10_000 + pause!.length)
  expect(scale.placeOf(to)).toBeCloseTo(scale.length)
  for (const time of [0, 5000, 600_000, 3_612_000]) expect(scale.timeAt(scale.placeOf(time))).toBeCloseTo(time)
})

test("a short break keeps its length", () => {
  const scale = scaleOf({ from: 0, to: 20_000 }, [{ from: 10_000, to: 10_100 }])
  expect(scale.length).toBe(20_000)
})

test("ticks are at round times and far enough apart", () => {
  expect(stepFor(1)).toBe(100)
  expect(stepFor(1000)).toBe(120_000)
  const ticks = ticksOf(1234, 5200, 1000)
  expect(ticks.map((tick) => tick.at)).toEqual([2000, 3000, 4000, 5000])
  expect(ticksOf(0, 1000, 500)[1]!.text).toMatch(/\.500$/)
})

test("the range of a running run changes rarely and includes the current time", () => {
  const one = rangeOf(0, null, 60_000)
  expect(one.to).toBeGreaterThan(60_000)
  expect(rangeOf(0, null, 60_500)).toEqual(one)
  expect(rangeOf(0, 60_000, 0).to).toBeCloseTo(61_200)
})

test("zooming keeps the time under the pointer and has limits", () => {
  expect(scrollAfterZoom(100, 50, 1, 2)).toBe(250)
  expect(zoomBy(1, 0.5, 800)).toBe(1)
  expect(zoomBy(4000, 1e9, 800)).toBe(5000)
})

test("only ticks of the visible part are drawn, and the text of a break covers those around it", () => {
  const hour = 3_600_000
  const scale = scaleOf({ from: 0, to: 10 * hour }, [{ from: 2 * hour, to: 9 * hour }])
  const whole = axisMarks(scale, { width: 1200, lane: 1200, left: 0 })
  expect(whole.breaks).toHaveLength(1)
  const middle = middleOf(whole.breaks[0]!)
  const isNear = (left: number): boolean => left > middle - BREAK_WIDTH / 2 - 64 && left < middle + BREAK_WIDTH / 2
  expect(whole.ticks.filter(({ covered }) => covered).length).toBeGreaterThan(0)
  for (const { left, covered } of whole.ticks) expect(covered, String(left)).toBe(isNear(left))
  const zoomed = axisMarks(scale, { width: 12_000, lane: 600, left: 9000 })
  expect(zoomed.ticks.length).toBeGreaterThan(0)
  for (const { left } of zoomed.ticks) {
    expect(left).toBeGreaterThanOrEqual(8799)
    expect(left).toBeLessThanOrEqual(10_001)
  }
})
