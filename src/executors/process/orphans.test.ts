import { spawn } from "node:child_process"
import { once } from "node:events"
import { expect, test } from "vitest"
import { OWNER_VARIABLE } from "./environment.ts"
import { currentOwner, ownerAlive } from "../../objects/owner.ts"
import { killOrphans } from "./orphans.ts"

const linux = process.platform === "linux"

/** Starts a process with an owner in its environment, like a task. */
const taskOf = async (owner: string) => {
  const child = spawn("sh", ["-c", "echo up; exec sleep 600"], {
    env: { ...process.env, [OWNER_VARIABLE]: owner },
    stdio: ["ignore", "pipe", "ignore"],
  })
  await once(child.stdout, "data")
  return child
}

test.runIf(linux)("the name of an owner shows whether it is alive", async () => {
  const [namespace, pid, tick] = currentOwner().split("-")
  expect(ownerAlive(currentOwner())).toBe(true)
  expect(ownerAlive(`${namespace}-${pid}-${Number(tick) + 1}`), "another process with the same pid").toBe(false)
  expect(ownerAlive(`${namespace}-999999999-1`)).toBe(false)
  expect(ownerAlive(`1${namespace}-${pid}-${tick}`), "another namespace, which is not visible").toBeNull()
  expect(ownerAlive("nonsense")).toBeNull()
})

test.runIf(linux)("processes of a dead owner are killed, and those of a live or foreign one are not", async () => {
  const [namespace] = currentOwner().split("-")
  const orphan = await taskOf(`${namespace}-999999999-1`)
  const mine = await taskOf(currentOwner())
  const foreign = await taskOf(`1${namespace}-999999999-1`)
  const ended = once(orphan, "exit")
  killOrphans()
  expect((await ended)[1]).toBe("SIGKILL")
  expect([mine.exitCode, mine.signalCode, foreign.exitCode, foreign.signalCode]).toEqual([null, null, null, null])
  mine.kill("SIGKILL")
  foreign.kill("SIGKILL")
})
