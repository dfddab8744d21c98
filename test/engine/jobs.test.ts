// Jobs through the whole engine: input, retry policy, cancel, deletion, dependencies.

import { access } from "node:fs/promises"
import { describe, expect, it } from "vitest"
import { uuidv7 } from "../../src/core/model/ids.ts"
import { DEFAULT_JOB_RETRY } from "../../src/core/rules/jobs/jobs.ts"
import type { JsonObject } from "../../src/core/values/json.ts"
import { parseValue } from "../../src/definition/parse.ts"
import { JOB_DEFAULTS, type JobRow, type NewJob } from "../../src/store/contract/jobs.ts"
import { fail, type Script, setup } from "./setup.ts"

const task = (): JsonObject => {
  const parsed = parseValue({ name: "job", tasks: { job: { command: "work", env: { LEVEL: "info" } } } })
  if (!parsed.ok) throw new Error("bad task")
  return JSON.parse(JSON.stringify(parsed.workflow.nodes[0])) as JsonObject
}

let made = 0

const withJobs = async (scripts: { [name: string]: Script }) => {
  const fixture = await setup(scripts, { lanes: ["q:*"] })
  const create = async (name: string, input: Partial<NewJob> = {}): Promise<JobRow> => {
    const id = uuidv7(fixture.clock.now(), (++made).toString(16).padStart(19, "0").padEnd(32, "0"))
    const job: NewJob = {
      id,
      name,
      queue: "mail",
      payload: null,
      priority: 5,
      dependencies: [],
      retryPolicy: DEFAULT_JOB_RETRY,
      task: task(),
      ...JOB_DEFAULTS,
      ...input,
    }
    const rows = await fixture.until(fixture.store.createJobs([job]))
    fixture.engine.wake()
    return (rows as JobRow[])[0]!
  }
  const status = async (job: { id: string }) => (await fixture.store.getJob(job.id))?.status
  const reach = async (job: { id: string }, ...wanted: string[]): Promise<JobRow> => {
    for (let i = 0; i < 1000; i++) {
      const row = await fixture.store.getJob(job.id)
      if (row !== null && wanted.includes(row.status)) return row
      await fixture.pass(1000)
    }
    throw new Error(`the job is ${await status(job)}, not ${wanted.join(" or ")}`)
  }
  return { ...fixture, create, reach, status }
}

describe("a job", () => {
  it("runs its task with its payload as the input", async () => {
    const fixture = await withJobs({ resize: ({ input }) => ({ got: input }) })
    const job = await fixture.create("resize", { payload: [1, { a: null }] })
    const row = await fixture.reach(job, "COMPLETED")
    expect(row).toMatchObject({ output: { inline: { got: [1, { a: null }] } }, attemptCount: 1, worker: "test", error: null })
    const [launched] = fixture.launched
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

  it("is retried by its own policy, and then fails", async () => {
    const fixture = await withJobs({ bad: () => fail("no") })
    const began = fixture.clock.now()
    const policy = { max_attempts: 3, backoff_strategy: "LINEAR", base_delay_seconds: 10, max_delay_seconds: 300 } as const
    const job = await fixture.create("bad", { retryPolicy: policy })
    const below = await fixture.create("after", { dependencies: [job.id] })
    expect(await fixture.reach(job, "FAILED")).toMatchObject({ attemptCount: 3, error: "no" })
    expect(fixture.clock.now() - began).toBeGreaterThanOrEqual(30_000)
    expect(await fixture.store.listAttempts(job.row)).toHaveLength(2)
    expect(await fixture.status(below)).toBe("BLOCKED")
    expect(fixture.launched).toHaveLength(3)
  })

  it("runs when the jobs that it depends on have completed", async () => {
    const fixture = await withJobs({ slow: async (_, { sleep }) => (await sleep(5000), null) })
    const first = await fixture.create("slow")
    const second = await fixture.create("then", { dependencies: [first.id], queue: "other" })
    expect(await fixture.status(second)).toBe("PENDING")
    await fixture.reach(second, "COMPLETED")
    expect(fixture.launched.map((each) => each.task)).toEqual(["slow", "then"])
  })

  it("without a task waits for a handler", async () => {
    const fixture = await withJobs({})
    const job = await fixture.create("handled", { task: null })
    const other = await fixture.create("other")
    await fixture.reach(other, "COMPLETED")
    expect(await fixture.status(job)).toBe("READY")
  })

  it("that is cancelled while it runs is stopped and not retried", async () => {
    const fixture = await withJobs({ long: (_, { untilStopped }) => untilStopped() })
    const job = await fixture.create("long")
    await fixture.reach(job, "RUNNING")
    expect(await fixture.until(fixture.store.cancelJob(job.id))).toMatchObject({ status: "RUNNING" })
    fixture.engine.wake()
    expect(await fixture.reach(job, "FAILED")).toMatchObject({ error: "cancelled", attemptCount: 1 })
    expect(fixture.launched).toHaveLength(1)
  })

  it("that is deleted while it runs is stopped, and the next job gets its slot", async () => {
    const fixture = await withJobs({ long: (_, { untilStopped }) => untilStopped() })
    await fixture.until(fixture.store.putQueue("mail", { concurrency: 1 }))
    const job = await fixture.create("long")
    await fixture.reach(job, "RUNNING")
    const next = await fixture.create("next")
    expect(await fixture.status(next)).toBe("READY")
    expect(await fixture.until(fixture.store.deleteJob(job.id))).toBeNull()
    fixture.engine.wake()
    await fixture.reach(next, "COMPLETED")
    expect(await fixture.status(job)).toBeUndefined()
  })
})
