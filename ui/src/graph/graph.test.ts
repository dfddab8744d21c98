import { expect, test } from "vitest"
import { stateOf } from "../run/testing.ts"
import { besideHooks, elkGraph, fastLayout, isForElk, placesOf } from "./layout.ts"
import { absolutePlaces, boxOf } from "./positions.ts"
import { HOOKS_ID, neighbour, type Opened, shapeOf } from "./model.ts"

const ALL: Opened = { closed: new Set(), fans: new Map() }

const FLOW = stateOf({
  a: {},
  g: { after: ["a"], executor: "group" },
  z: { after: ["g"] },
  "g.x": { group: "g" },
  "g.y": { group: "g", after: ["g.x"], fan: true },
  "on_exit.0": { hook: true },
}).nodes

test("groups are boxes around their tasks, hooks are separate, and edges stay within their level", () => {
  const { boxes, lines } = shapeOf(FLOW, ALL)
  expect(boxes.map(({ id, parent, kind }) => [id, parent, kind])).toEqual([
    ["a", null, "task"],
    ["g", null, "frame"],
    ["z", null, "task"],
    ["g.x", "g", "task"],
    ["g.y", "g", "task"],
    [HOOKS_ID, null, "frame"],
    ["on_exit.0", HOOKS_ID, "task"],
  ])
  expect(lines.map(({ id }) => id)).toEqual(["a→g", "g→z", "g.x→g.y"])
})

test("a closed group is one box, and none of its inner boxes remain at any depth", () => {
  const nested = stateOf({
    g: { executor: "group" },
    "g.h": { group: "g", executor: "group" },
    "g.h.x": { group: "g.h" },
  }).nodes
  const { boxes, lines } = shapeOf(nested, { ...ALL, closed: new Set(["g"]) })
  expect(boxes.map(({ id, kind }) => [id, kind])).toEqual([["g", "task"]])
  expect(lines).toEqual([])
})

test("an open fan-out is a box around its instances and has another key", () => {
  const opened = shapeOf(FLOW, { ...ALL, fans: new Map([["g.y", ["0", "1"]]]) })
  expect(opened.boxes.filter(({ parent }) => parent === "g.y").map(({ id }) => id)).toEqual(["g.y[0]", "g.y[1]"])
  expect(opened.key).not.toBe(shapeOf(FLOW, ALL).key)
  expect(shapeOf(FLOW, ALL).key).toBe(shapeOf(FLOW, ALL).key)
})

test("the ELK graph contains every box once, in its parent, with the edges of each level", () => {
  const root = elkGraph(shapeOf(FLOW, ALL))
  expect(root.children?.map(({ id }) => id)).toEqual(["a", "g", "z", HOOKS_ID])
  const g = root.children?.find(({ id }) => id === "g")
  expect(g?.children?.map(({ id }) => id)).toEqual(["g.x", "g.y"])
  expect(g?.edges?.map(({ id }) => id)).toEqual(["g.x→g.y"])
  expect(root.edges?.map(({ id }) => id)).toEqual(["a→g", "g→z"])
  const places = placesOf({ id: "r", children: [{ id: "a", x: 1, y: 2, width: 3, height: 4 }] })
  expect(places.get("a")).toEqual({ x: 1, y: 2, width: 3, height: 4 })
})

test("the fast layout puts tasks to the right of their upstream tasks without overlaps", () => {
  const shape = shapeOf(FLOW, { ...ALL, fans: new Map([["g.y", ["0", "1", "2"]]]) })
  const places = fastLayout(shape)
  expect(places.size).toBe(shape.boxes.length)
  for (const { from, to } of shape.lines) {
    const left = places.get(from)!
    expect(places.get(to)!.x).toBeGreaterThanOrEqual(left.x + left.width)
  }
  for (const box of shape.boxes) {
    const own = places.get(box.id)!
    for (const other of shape.boxes) {
      if (other === box || other.parent !== box.parent) continue
      const its = places.get(other.id)!
      const apart =
        own.x + own.width <= its.x || its.x + its.width <= own.x || own.y + own.height <= its.y || its.y + its.height <= own.y
      expect(apart, `${box.id} and ${other.id}`).toBe(true)
    }
    if (box.parent === null) continue
    const around = places.get(box.parent)!
    expect(own.x + own.width).toBeLessThanOrEqual(around.width)
    expect(own.y + own.height).toBeLessThanOrEqual(around.height)
  }
})

const wide = (count: number) =>
  stateOf({
    first: {},
    ...Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, { after: ["first"] }])),
  }).nodes

test("large graphs are laid out fast, and a wide layer is split into columns", () => {
  expect(isForElk(shapeOf(wide(50), ALL))).toBe(true)
  expect(isForElk(shapeOf(wide(200), ALL))).toBe(false)
  const shape = shapeOf(wide(5000), ALL)
  const places = [...fastLayout(shape).values()]
  const height = Math.max(...places.map(({ y, height: own }) => y + own))
  const width = Math.max(...places.map(({ x, width: own }) => x + own))
  expect(height / width).toBeLessThan(3)
})

test("hooks are below everything else in both layouts", async () => {
  const shape = shapeOf(FLOW, ALL)
  const asked: string[] = []
  const elk = await besideHooks(shape, async (rest) => {
    asked.push(...rest.boxes.map(({ id }) => id))
    return fastLayout(rest)
  })
  expect(asked).not.toContain(HOOKS_ID)
  expect(asked).not.toContain("on_exit.0")
  for (const places of [elk!, fastLayout(shape)]) {
    for (const id of ["a", "g", "z"]) {
      const { y, height } = places.get(id)!
      expect(places.get(HOOKS_ID)!.y).toBeGreaterThan(y + height)
    }
    expect(places.has("on_exit.0")).toBe(true)
  }
  expect(await besideHooks(shape, async () => null)).toBeNull()
})

test("arrow keys move to the nearest box in their direction", () => {
  const at = (x: number, y: number) => ({ x, y, width: 10, height: 10 })
  const others: [string, ReturnType<typeof at>][] = [
    ["right", at(100, 0)],
    ["far", at(300, 0)],
    ["below", at(0, 50)],
    ["aside", at(60, 400)],
  ]
  expect(neighbour(at(0, 0), others, "right")).toBe("right")
  expect(neighbour(at(0, 0), others, "down")).toBe("below")
  expect(neighbour(at(0, 0), others, "left")).toBeNull()
})

test("boxes inside groups have absolute positions", () => {
  const shape = shapeOf(FLOW, ALL)
  const places = fastLayout(shape)
  const where = absolutePlaces(shape, places)
  const [group, inside] = [places.get("g")!, places.get("g.x")!]
  expect(where.get("a")).toEqual(places.get("a"))
  expect(where.get("g.x")).toEqual({ ...inside, x: group.x + inside.x, y: group.y + inside.y })
})

test("an instance is selected by its own box if its fan-out is open, and by that of its task otherwise", () => {
  const open = shapeOf(FLOW, { ...ALL, fans: new Map([["g.y", ["0", "1"]]]) })
  expect(boxOf(shapeOf(FLOW, ALL), { task: "g.y", path: "1" })).toBe("g.y")
  expect(boxOf(open, { task: "g.y", path: "1" })).toBe("g.y[1]")
  expect(boxOf(shapeOf(FLOW, { ...ALL, closed: new Set(["g"]) }), { task: "g.y", path: "1" })).toBeNull()
})
