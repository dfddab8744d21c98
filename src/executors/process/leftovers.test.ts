import { spawn } from "node:child_process"
import { once } from "node:events"
import { expect, test } from "vitest"
import { OWNER_VARIABLE } from "./environment.ts"
import { currentOwner, ownerAlive } from "../../objects/owner.ts"
import { killLeftovers } from "./leftovers.ts"

const linux = process.platform === "linux"

/** A process that carries the name of an owner, as a task's does. */
const taskOf = async (owner: string) => {
  const child = spawn("sh", ["-c", "echo up; exec sleep 600"], {
    env: { ...process.env, [OWNER_VARIABLE]: owner },
    stdio: ["ignore", "pipe", "ignore"],
  })
  await once(child.stdout, "data")
  return child
}

test.runIf(linux)("the name of an owner tells whether it lives", async () => {
  const [namespace, pid, tick] = currentOwner().split("-")
  expect(ownerAlive(currentOwner())).toBe(true)
  expect(ownerAlive(`${namespace}-${pid}-${Number(tick) + 1}`), "another process with the same pid").toBe(false)
  expect(ownerAlive(`${namespace}-999999999-1`)).toBe(false)
  expect(ownerAlive(`1${namespace}-${pid}-${tick}`), "another namespace: not to be judged from here").toBeNull()
  expect(ownerAlive("nonsense")).toBeNull()
})

test.runIf(linux)("a start ends what tasks of a dead owner left, and nothing of a live or foreign one", async () => {
  const [namespace] = currentOwner().split("-")
  const orphan = await taskOf(`${namespace}-999999999-1`)
  const mine = await taskOf(currentOwner())
  const foreign = await taskOf(`1${namespace}-999999999-1`)
  const ended = once(orphan, "exit")
  killLeftovers()
  expect((await ended)[1]).toBe("SIGKILL")
  expect([mine.exitCode, mine.signalCode, foreign.exitCode, foreign.signalCode]).toEqual([null, null, null, null])
  mine.kill("SIGKILL")
  foreign.kill("SIGKILL")
})
