import { expect, test } from "vitest"
import { BoundedMap } from "./bounded-map.ts"

test("an entry beyond the limit replaces the oldest one", () => {
  const map = new BoundedMap<string, number>(2).set("a", 1).set("b", 2)
  map.set("a", 3)
  expect([...map]).toEqual([
    ["a", 3],
    ["b", 2],
  ])
  map.set("c", 4)
  expect([...map.keys()]).toEqual(["b", "c"])
})

test("a value is created once while it is kept", () => {
  const map = new BoundedMap<string, number>(1)
  let created = 0
  const get = (key: string): number => map.getOrCreate(key, () => ++created)
  expect([get("a"), get("a"), get("b"), get("a")]).toEqual([1, 1, 2, 3])
})
