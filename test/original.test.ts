// The example workflows of the first project of this name run unchanged. Three of them fail where their own models require fields that
// their YAML does not supply.

import { spawnSync } from "node:child_process"
import { cpSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { ork, orkRun, temporaryFolder } from "./support/ork.ts"

const hasPydantic = spawnSync("python3", ["-c", "import pydantic"]).status === 0

interface Task {
  name: string
  status: string
  attempt: number
  output: unknown
  error: string | null
}

/** Runs an example as its user does: in its own folder. */
const runExample = async (folder: string, file: string): Promise<{ status: string; tasks: Map<string, Task> }> => {
  const cwd = temporaryFolder()
  cpSync(join(import.meta.dirname, "original", folder), cwd, { recursive: true })
  const { run } = await orkRun([file], { cwd })
  const shown = JSON.parse((await ork(["show", "latest", "--json"], { cwd })).stdout) as { task_list: Task[] }
  return { status: run.status, tasks: new Map(shown.task_list.map((task) => [task.name, task])) }
}

const statuses = (tasks: ReadonlyMap<string, Task>): Record<string, string> =>
  Object.fromEntries([...tasks.values()].map(({ name, status }) => [name, status]))

/** Error of a model that lacks the field. */
const requires = (field: string) => expect.stringMatching(new RegExp(`${field}\\s+Field required`)) as unknown

it.skipIf(!hasPydantic)("the examples of the first project run", { timeout: 120_000 }, async () => {
  const [demo, retries, branches, parallel, quickstart] = await Promise.all([
    runExample("demo", "demo.yaml"),
    runExample("retries", "retries.yaml"),
    runExample("branches", "branches.yaml"),
    runExample("parallel", "parallel.yaml"),
    runExample("quickstart", "elt_pipeline.yaml"),
  ])
  expect(demo.status).toBe("success")
  expect(demo.tasks.get("compliment")!.output).toEqual({
    line: "Hello, Ork dev! — you built Ork to be ridiculously fast!",
    adjective: "ridiculously fast",
  })

  expect(retries.status).toBe("success")
  expect(retries.tasks.get("flakey")).toMatchObject({ attempt: 2, output: { ok: true, attempt: 2 } })

  expect(branches.status).toBe("failed")
  expect(statuses(branches.tasks)).toEqual({ start: "success", left: "success", right: "success", join: "failed" })
  expect(branches.tasks.get("join")!.error).toEqual(requires("greet"))

  expect(parallel.status).toBe("failed")
  expect(statuses(parallel.tasks)).toEqual({ hello_left: "success", hello_right: "success", combine: "failed" })
  expect(parallel.tasks.get("combine")!.error).toEqual(requires("greet"))

  expect(quickstart.status).toBe("failed")
  expect(statuses(quickstart.tasks)).toEqual({
    bronze_posts: "success",
    bronze_comments: "success",
    bronze_users: "success",
    silver_posts: "failed",
    silver_comments: "failed",
    silver_users: "failed",
    gold_analytics: "skipped",
  })
  expect(quickstart.tasks.get("bronze_posts")!.output).toMatchObject({ source: "posts", count: expect.any(Number) as number })
  for (const name of ["silver_posts", "silver_comments", "silver_users"])
    expect(quickstart.tasks.get(name)!.error).toEqual(requires("bronze"))
})
