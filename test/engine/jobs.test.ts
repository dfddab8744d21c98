// Jobs through the whole engine: input, retries by their own policy, cancel, deletion, dependencies.

import { access } from "node:fs/promises"
import { describe, expect, it } from "vitest"
import { uuidv7 } from "../../src/core/model/ids.ts"
import { DEFAULT_JOB_RETRY } from "../../src/core/rules/jobs.ts"
import type { JsonObject } from "../../src/core/model/json.ts"
import { parseValue } from "../../src/definition/parse.ts"
import type { JobRow, NewJob } from "../../src/store/contract/jobs.ts"
import { fail, type Script, setup } from "./world.ts"

const task = (): JsonObject => {
  const parsed = parseValue({ name: "job", tasks: { job: { command: "work", env: { LEVEL: "info" } } } })
  if (!parsed.ok) throw new Error("bad task")
  return JSON.parse(JSON.stringify(parsed.workflow.nodes[0])) as JsonObject
}

let made = 0

const withJobs = async (scripts: { [name: string]: Script }) => {
  const world = await setup(scripts, { lanes: ["q:*"] })
  const create = async (name: string, input: Partial<NewJob> = {}): Promise<JobRow> => {
    const id = uuidv7(world.clock.now(), (++made).toString(16).padStart(19, "0").padEnd(32, "0"))
    const job: NewJob = {
      id,
      name,
      queue: "mail",
      payload: null,
      priority: 5,
      dependencies: [],
      retryPolicy: DEFAULT_JOB_RETRY,
      task: task(),
      concurrencyKey: null,
      ...input,
    }
    const rows = await world.until(world.store.createJobs([job]))
    world.engine.look()
    return (rows as JobRow[])[0]!
  }
  const status = async (job: { id: string }) => (await world.store.getJob(job.id))?.status
  const reach = async (job: { id: string }, ...wanted: string[]): Promise<JobRow> => {
    for (let i = 0; i < 1000; i++) {
      const row = await world.store.getJob(job.id)
      if (row !== null && wanted.includes(row.status)) return row
      await world.pass(1000)
    }
    throw new Error(`the job is ${await status(job)}, not ${wanted.join(" or ")}`)
  }
  return { ...world, create, reach, status }
}

describe("a job", () => {
  it("runs its task with its payload as the input", async () => {
    const world = await withJobs({ resize: ({ input }) => ({ got: input }) })
    const job = await world.create("resize", { payload: [1, { a: null }] })
    const row = await world.reach(job, "COMPLETED")
    expect(row).toMatchObject({ output: { inline: { got: [1, { a: null }] } }, attemptCount: 1, worker: "test", error: null })
    const [launched] = world.launched
    expect(launched).toMatchObject({
      runId: job.id,
      taskId: job.id,
      task: "resize",
      attempt: 1,
      command: { shell: "work" },
      env: { LEVEL: "info" },
      prefix: `jobs/${job.id}/${row.attemptId}/`,
    })
    await expect(access(launched!.workingDir)).rejects.toThrow("ENOENT")
  })

  it("is tried again by its own policy, and then has failed", async () => {
    const world = await withJobs({ bad: () => fail("no") })
    const began = world.clock.now()
    const policy = { max_attempts: 3, backoff_strategy: "LINEAR", base_delay_seconds: 10, max_delay_seconds: 300 } as const
    const job = await world.create("bad", { retryPolicy: policy })
    const below = await world.create("after", { dependencies: [job.id] })
    expect(await world.reach(job, "FAILED")).toMatchObject({ attemptCount: 3, error: "no" })
    expect(world.clock.now() - began).toBeGreaterThanOrEqual(30_000)
    expect(await world.store.listAttempts(job.row)).toHaveLength(2)
    expect(await world.status(below)).toBe("BLOCKED")
    expect(world.launched).toHaveLength(3)
  })

  it("goes when what it depends on is done", async () => {
    const world = await withJobs({ slow: async (_, { sleep }) => (await sleep(5000), null) })
    const first = await world.create("slow")
    const second = await world.create("then", { dependencies: [first.id], queue: "other" })
    expect(await world.status(second)).toBe("PENDING")
    await world.reach(second, "COMPLETED")
    expect(world.launched.map((each) => each.task)).toEqual(["slow", "then"])
  })

  it("without a task is left to a handler", async () => {
    const world = await withJobs({})
    const job = await world.create("handled", { task: null })
    const other = await world.create("other")
    await world.reach(other, "COMPLETED")
    expect(await world.status(job)).toBe("READY")
  })

  it("that is cancelled while it runs is stopped, and not tried again", async () => {
    const world = await withJobs({ long: (_, { untilStopped }) => untilStopped() })
    const job = await world.create("long")
    await world.reach(job, "RUNNING")
    expect(await world.until(world.store.cancelJob(job.id))).toMatchObject({ status: "RUNNING" })
    world.engine.look()
    expect(await world.reach(job, "FAILED")).toMatchObject({ error: "cancelled", attemptCount: 1 })
    expect(world.launched).toHaveLength(1)
  })

  it("that is deleted while it runs is stopped, and its slot goes to the next", async () => {
    const world = await withJobs({ long: (_, { untilStopped }) => untilStopped() })
    await world.until(world.store.putQueue("mail", { concurrency: 1 }))
    const job = await world.create("long")
    await world.reach(job, "RUNNING")
    const next = await world.create("next")
    expect(await world.status(next)).toBe("READY")
    expect(await world.until(world.store.deleteJob(job.id))).toBeNull()
    world.engine.look()
    await world.reach(next, "COMPLETED")
    expect(await world.status(job)).toBeUndefined()
  })
})
