import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { describeError, InputError } from "./errors.ts"
import { UnusableSetting } from "../../core/settings/unusable-setting.ts"
import { StoreUnavailable } from "../../store/contract/errors.ts"

test("bad input is described line by line and exits 2", () => {
  expect(describeError(new InputError("a\nb"))).toEqual({ lines: ["ork: a", "ork: b"], exitCode: 2 })
  expect(describeError(new UnusableSetting("task_user: c"))).toEqual({ lines: ["ork: task_user: c"], exitCode: 2 })
})

test("errors of the system and of the stores are described without a stack and exit 1", () => {
  const system = (() => {
    try {
      return readFileSync("/no/such/file")
    } catch (error) {
      return error
    }
  })()
  expect(describeError(system)).toEqual({
    lines: ["ork: ENOENT: no such file or directory, open '/no/such/file'"],
    exitCode: 1,
  })
  const unavailable = new StoreUnavailable("x", "disk full")
  expect(describeError(unavailable)).toEqual({ lines: ["ork: the database x is not available: disk full"], exitCode: 1 })
})

test("any other error is described as a bug, with its stack", () => {
  const { lines, exitCode } = describeError(new TypeError("x is not a function"))
  expect([exitCode, lines[0]]).toEqual([1, expect.stringMatching(/bug in Ork.*TypeError: x is not a function\n +at /s)])
  expect(describeError("odd").lines).toEqual(["ork: this is a bug in Ork; please report it: odd"])
})
