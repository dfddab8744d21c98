import { spawn } from "node:child_process"
import { once } from "node:events"
import { describe, expect, it } from "vitest"
import { processIdentity, processIsDead } from "./process-identity.ts"

describe("the identity of a process", () => {
  it("is alive while the process is, and dead after it", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"])
    await once(child, "spawn")
    const identity = processIdentity(child.pid)
    expect(processIsDead(identity)).toBe(false)
    child.kill("SIGKILL")
    await once(child, "close")
    expect(processIsDead(identity)).toBe(true)
  })

  it("of this process is alive", () => expect(processIsDead(processIdentity())).toBe(false))

  it.skipIf(process.platform !== "linux")("is not that of another one that got the same number, nor of another boot", () => {
    const [pid, started, boot] = processIdentity().split(":")
    expect(processIsDead(`${pid}:${Number(started) + 1}:${boot}`)).toBe(true)
    expect(processIsDead(`${pid}:${started}:another-boot`)).toBe(true)
  })

  it("by number alone works where there is no more to know", () => {
    expect(processIsDead(`${process.pid}`)).toBe(false)
    expect(processIsDead("999999999")).toBe(true)
  })

  it.each(["", "x", "-1", "1.5:2:3"])("that says nothing (%j) is taken for alive", (identity) => {
    expect(processIsDead(identity)).toBe(false)
  })
})
