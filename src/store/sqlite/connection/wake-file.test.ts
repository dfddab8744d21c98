import { readFileSync, rmSync, statSync } from "node:fs"
import { expect, it, onTestFinished } from "vitest"
import { tempFile } from "../testing.ts"
import { openWake, type WakeFile } from "./wake-file.ts"

const open = (path: string, mark: string): WakeFile => {
  const wake = openWake(path, mark)
  onTestFinished(() => wake.close())
  return wake
}

it("a process wakes others, not itself", async () => {
  const path = tempFile()
  const [own, other] = [open(path, "a".repeat(32)), open(path, "b".repeat(32))]
  const woken: string[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  own.listen(() => void woken.push("own"))
  other.listen(() => (woken.push("other"), resolve()))
  own.touch()
  await promise
  expect(woken).toEqual(["other"])
})

it("the file is written in place, and again when it was deleted", () => {
  const path = tempFile()
  const wake = open(path, "a".repeat(32))
  const file = `${path}.wake`
  wake.touch()
  const { ino } = statSync(file)
  const first = readFileSync(file, "utf8")
  wake.touch()
  expect(statSync(file).ino).toBe(ino)
  expect(readFileSync(file, "utf8")).toHaveLength(first.length)
  expect(readFileSync(file, "utf8")).not.toBe(first)
  rmSync(file)
  wake.touch()
  expect(readFileSync(file, "utf8")).toHaveLength(first.length)
})
