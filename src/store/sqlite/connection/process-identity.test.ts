import { spawn } from "node:child_process"
import { once } from "node:events"
import { describe, expect, it } from "vitest"
import { processIdentity, processIsDead } from "./process-identity.ts"

describe("the identity of a process", () => {
  it("is alive as long as the process", async () => {
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

  it("works by pid alone where nothing else is known", () => {
    expect(processIsDead(`${process.pid}`)).toBe(false)
    expect(processIsDead("999999999")).toBe(true)
  })

  it.each(["", "x", "-1", "1.5:2:3"])("that is malformed (%j) counts as alive", (identity) => {
    expect(processIsDead(identity)).toBe(false)
  })
})
