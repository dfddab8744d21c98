import { expect, it } from "vitest"
import { containerState, type ContainerRow, haveChildrenFinished } from "../../model/container-state.ts"
import { cancelEffect } from "./cancel-effect.ts"

const group = (
  isOpened: boolean,
  [childrenCreated, childrenTotal, childrenPending]: [number, number | null, number | null],
): ContainerRow => ({ kind: "group", isOpened, childrenCreated, childrenTotal, childrenPending })

it.each([
  ["unopened", "cancel", group(false, [0, null, null])],
  ["half_created", "stop_creating", group(true, [1, 3, 3])],
  ["half_created", "stop_creating", group(true, [1, 3, 2])],
  ["open", "leave", group(true, [3, 3, 2])],
  ["to_gather", "leave", group(true, [3, 3, 0])],
  ["without_slots", "leave", group(false, [3, 3, 2])],
] as const)("a container that is %s: a cancel has the effect %s", (state, effect, row) => {
  expect({ state: containerState(row), effect: cancelEffect(row) }).toEqual({ state, effect })
})

it("cancels tasks, which have no children", () => {
  expect(cancelEffect({ ...group(true, [0, null, null]), kind: "task" })).toBe("cancel")
})

it("gathers only containers whose children exist and have finished", () => {
  expect(haveChildrenFinished(group(true, [3, 3, 0]))).toBe(true)
  expect(haveChildrenFinished(group(true, [3, 3, 1]))).toBe(false)
  expect(haveChildrenFinished(group(false, [0, null, null]))).toBe(false)
  expect(haveChildrenFinished({ ...group(true, [3, 3, 0]), kind: "task" })).toBe(false)
})
