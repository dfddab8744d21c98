import { expect, test } from "vitest"
import { readableLine } from "./log.ts"

const line = (entry: object): string =>
  readableLine(JSON.stringify({ level: 30, time: 0, pid: 1, hostname: "h", msg: "deployed", ...entry })).replace(
    /^\d\d:\d\d:\d\d /,
    "",
  )

test("a readable line contains the message and its fields, and any level except info", () => {
  expect(line({ workflow: "etl", version: 2 })).toBe("deployed workflow=etl version=2\n")
  expect(line({ level: 40, part: "engine", problems: ["a", "b"] })).toBe('WARN deployed problems=["a","b"]\n')
})
