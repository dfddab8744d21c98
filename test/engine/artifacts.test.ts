// Artifacts: what a task stores is what later tasks get, of the right instance and of the right attempt.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { type Script, setup } from "./setup.ts"

/** Writes a file with the number of the attempt and the path of the instance. */
const write: Script = ({ workingDir, attempt, path, task }) => {
  mkdirSync(join(workingDir, task), { recursive: true })
  writeFileSync(join(workingDir, task, `${path || "one"}.txt`), `${task} ${path} attempt ${attempt}`)
  return null
}

const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
    .toSorted()

const start = async (scripts: { [task: string]: Script } = {}) => {
  const seen: { [task: string]: { [file: string]: string } } = {}
  const read: Script = ({ artifactsDir, task, path }) => {
    const files = filesBelow(artifactsDir!).map((file) => [file, readFileSync(join(artifactsDir!, file), "utf8")])
    seen[task + path] = Object.fromEntries(files) as { [file: string]: string }
    return null
  }
  return { ...(await setup({ make: write, use: read, "group.make": write, "group.use": read, ...scripts })), seen }
}

describe("artifacts", () => {
  it("reach the task that names them, which depends on them", async () => {
    const { trigger, ended, seen } = await start()
    const run = await ended(
      await trigger(`
name: pass
tasks:
  use: { artifacts_from: make, command: x }
  make: { command: x, artifacts: "make/*.txt" }
`),
    )
    expect(run.status).toBe("success")
    expect(seen["use"]).toEqual({ "make/make/one.txt": "make  attempt 1" })
  })

  it("of a fan-out are below the index of each instance, and inside groups those of the same item", async () => {
    const { trigger, ended, seen } = await start()
    const run = await ended(
      await trigger(`
name: fan
tasks:
  make: { foreach: [a, b], command: x, artifacts: "make/\${{ index }}.txt" }
  use: { artifacts_from: [make], command: x }
  group:
    foreach: [a, b]
    tasks:
      make: { parallel: 2, command: x, artifacts: "group.make/\${{ parent.index }}.\${{ index }}.txt" }
      use: { artifacts_from: make, command: x }
`),
    )
    expect(run.status).toBe("success")
    expect(Object.keys(seen["use"]!)).toEqual(["make/0/make/0.txt", "make/1/make/1.txt"])
    expect(seen["group.use1"]).toEqual({
      "make/0/group.make/1.0.txt": "group.make 1.0 attempt 1",
      "make/1/group.make/1.1.txt": "group.make 1.1 attempt 1",
    })
  })

  it("of a failed attempt and of an earlier success never mix with those of a retry", async () => {
    let fails = true
    const make: Script = (assignment, tools) => {
      void write(assignment, tools)
      if (fails && assignment.attempt === 1) throw new Error("no")
      return null
    }
    const { engine, trigger, ended, seen } = await start({ make })
    const runId = await trigger(`
name: again
tasks:
  make: { command: x, artifacts: "make/*.txt", retries: 1 }
  use: { artifacts_from: make, command: x }
`)
    await ended(runId)
    expect(seen["use"]).toEqual({ "make/make/one.txt": "make  attempt 2" })
    fails = false
    await engine.retry(runId, { from: "make" })
    await ended(runId)
    expect(seen["use"]).toEqual({ "make/make/one.txt": "make  attempt 3" })
  })

  it("that are missing fail the task, with the task and the pattern in its error", async () => {
    const { trigger, ended, task } = await start({ make: () => null })
    const runId = await trigger(`
name: missing
tasks:
  make: { command: x, artifacts: "out/*.csv" }
  use: { artifacts_from: make, command: x }
`)
    expect((await ended(runId)).status).toBe("failed")
    expect(await task(runId, "make")).toMatchObject({
      status: "failed",
      error: 'the artifacts of make cannot be stored: no file in its working folder matches "out/*.csv"',
    })
  })

  it("of a skipped task are an empty folder", async () => {
    const { trigger, ended, seen } = await start()
    const run = await ended(
      await trigger(`
name: skipped
tasks:
  make: { if: "false", command: x, artifacts: "out/*.csv" }
  use: { artifacts_from: make, command: x }
`),
    )
    expect(run.status).toBe("success")
    expect(seen["use"]).toEqual({})
  })

  it("that the object store has lost fail the task that needs them, with the file and the task", async () => {
    const fixture = await start({
      between: async ({ runId }) => {
        await fixture.objects.deletePrefix(`runs/${runId}/make/`)
        return null
      },
    })
    const { trigger, ended, task } = fixture
    const runId = await trigger(`
name: lost
tasks:
  make: { command: x, artifacts: "make/*.txt" }
  between: { depends_on: [make], command: x }
  use: { depends_on: [between], artifacts_from: make, command: x }
`)
    expect((await ended(runId)).status).toBe("failed")
    expect((await task(runId, "use")).error).toBe(
      'task make has not stored its artifacts ("make/*.txt"), although its status is success; retry it',
    )
  })

  it("leave no files behind when the run closes", async () => {
    const { trigger, ended, launched } = await start()
    const runId = await trigger(`
name: clean
tasks:
  make: { command: x, artifacts: "make/*.txt" }
  use: { artifacts_from: make, command: x }
`)
    await ended(runId)
    const { artifactsDir } = launched.at(-1)!
    await expect.poll(() => existsSync(artifactsDir!)).toBe(false)
  })
})
