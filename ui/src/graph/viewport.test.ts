import { expect, test } from "vitest"
import type { Place } from "./layout.ts"
import { centredOn, isInSight, READABLE, wholeView } from "./viewport.ts"

const FRAME = { width: 800, height: 500 }
const box = (x: number, y: number): Place => ({ x, y, width: 208, height: 52 })

const edges = (place: Place, view: { x: number; y: number; zoom: number }) => ({
  left: place.x * view.zoom + view.x,
  top: place.y * view.zoom + view.y,
  right: (place.x + place.width) * view.zoom + view.x,
  bottom: (place.y + place.height) * view.zoom + view.y,
})

test.each([3, 5, 6, 7, 8, 9])("a graph of %i rows that is readable as a whole is not cut off", (rows) => {
  const places = Array.from({ length: rows }, (_, i) => box(0, i * 72))
  const view = wholeView(places, FRAME, READABLE)
  expect(edges(places[0]!, view).top).toBeGreaterThanOrEqual(60)
  expect(edges(places.at(-1)!, view).bottom).toBeLessThanOrEqual(FRAME.height)
})

test("a graph that is too large begins with its first box, wherever the layout puts it", () => {
  const column = Array.from({ length: 80 }, (_, i) => box(272, i * 72))
  for (const y of [0, 40 * 72, 79 * 72]) {
    const first = box(0, y)
    const view = wholeView([...column, first], FRAME, READABLE)
    expect(view.zoom).toBe(READABLE)
    expect(isInSight(first, view, FRAME), `first box at ${y}`).toBe(true)
    expect(edges(column[0]!, view).top).toBeLessThanOrEqual(60)
    expect(edges(column.at(-1)!, view).bottom).toBeGreaterThanOrEqual(FRAME.height - 24)
  }
})

test("a box below the toolbar is not in sight", () => {
  expect(isInSight(box(0, 0), { x: 0, y: 0, zoom: 1 }, FRAME)).toBe(false)
  expect(isInSight(box(0, 0), { x: 24, y: 60, zoom: 1 }, FRAME)).toBe(true)
  expect(isInSight(box(0, 0), { x: 200, y: 0, zoom: 1 }, FRAME)).toBe(true)
})

test("a box can be centred", () => {
  const far = box(4000, 3000)
  expect(isInSight(far, centredOn(far, FRAME, 0.75), FRAME)).toBe(true)
})

test("a box that the frame cuts is not in sight; of a wide box, half a frame is enough", () => {
  const frame = { width: 600, height: 400 }
  const view = { x: 0, y: 0, zoom: 1 }
  const box = (x: number, width: number) => ({ x, y: 100, width, height: 50 })
  expect(isInSight(box(440, 160), view, frame)).toBe(true)
  expect(isInSight(box(450, 160), view, frame)).toBe(false)
  expect(isInSight(box(200, 2000), view, frame)).toBe(true)
})
