// The samples of the specifications that Ork combines, as they are printed there; test/serve/curl-flows.sh has their curl commands.

import { execFile } from "node:child_process"
import { writeFileSync, mkdirSync, chmodSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import {
  canTransition,
  dependencyStatus,
  detectCycle,
  JOB_TRANSITIONS,
  type JobRetryPolicy,
  type JobStatus,
  orderJobs,
  propagateCompletion,
  propagateFailure,
  retryDelay,
  selectNextJobs,
  shouldRetry,
} from "../src/sdk/index.ts"
import { ork, orkRun, temporaryFolder } from "./support/ork.ts"
import { type Server, startServer } from "./support/server.ts"
import { startListener, tasksOf } from "./support/worker.ts"

const execute = promisify(execFile)
const KEY = "airflow-mini-secret-key"

/** Commands that print what the samples describe as comments. */
const SHARD = "command: 'echo \"[$ORK_PARALLEL_INDEX, $ORK_PARALLEL_COUNT]\"'"

const start = (...args: string[]): Promise<Server> => startServer(args, { cwd: temporaryFolder(), env: { ORK_API_KEY: KEY } })

describe("000: parallelization", () => {
  const outputsOf = async (name: string, tasks: string, server?: Server): Promise<unknown[]> => {
    server ??= await start()
    const body = `name: ${name}\n${tasks}`
    const deployed = await server.call("POST", "/workflows", body, { "content-type": "application/yaml" })
    expect([deployed.status, deployed.text]).toEqual([201, expect.any(String)])
    const runId = await server.trigger(name)
    expect((await server.reaches(runId, "success", "failed"))["status"]).toBe("success")
    return (await tasksOf(server, runId)).filter((task) => task.name === "process").map(({ output }) => output)
  }

  it("static: `parallel: 4` creates 4 tasks", async () => {
    expect(await outputsOf("static", `tasks:\n  process:\n    parallel: 4\n    ${SHARD}\n`)).toEqual(
      [0, 1, 2, 3].map((i) => [i, 4]),
    )
  })

  it("dynamic by count: `parallel: discover.count` creates as many tasks as the output says", async () => {
    const tasks = `tasks:
  discover:
    command: |
      echo '{ "count": 10 }'
  process:
    depends_on: [discover]
    parallel: discover.count
    ${SHARD}
`
    expect(await outputsOf("by_count", tasks)).toEqual(Array.from({ length: 10 }, (_, i) => [i, 10]))
  })

  it.each(["", "    concurrency: 4\n"])("dynamic by items: each task has its item as input.item; %j", async (concurrency) => {
    const tasks = `tasks:
  discover:
    command: |
      echo '{ "files": ["a.csv", "b.csv", "c.csv"] }'
  process:
    depends_on: [discover]
    foreach: discover.files
${concurrency}    command: cat
`
    const found = (await outputsOf(concurrency === "" ? "by_items" : "limited", tasks)) as { item: string }[]
    expect(found.map(({ item }) => item)).toEqual(["a.csv", "b.csv", "c.csv"])
  })

  it("concurrency: at most 4 `process` tasks are in flight, and the others stay pending, also without depends_on", async () => {
    const server = await start()
    const tasks = `tasks:
  discover:
    command: |
      echo '{ "files": ["a", "b", "c", "d", "e", "f", "g", "h", "i"] }'
  process:
    foreach: discover.files
    concurrency: 4
    command: sleep 0.2
`
    await outputsOf("limited", tasks, server)
    const [run] = (await server.call("GET", "/runs")).body["items"] as { id: string }[]
    const { items } = (await server.call("GET", `/runs/${run!.id}/tasks?name=process&limit=100`)).body
    const times = (items as { started_at: string; finished_at: string }[]).flatMap((task) => [
      { at: task.started_at, change: 1 },
      { at: task.finished_at, change: -1 },
    ])
    let running = 0
    const most = times
      .toSorted((a, b) => a.at.localeCompare(b.at) || a.change - b.change)
      .reduce((max, { change }) => Math.max(max, (running += change)), 0)
    expect([times.length, most]).toEqual([18, 4])
  })

  it("every endpoint of the table responds without a prefix", async () => {
    const server = await start()
    const call = async (method: string, path: string): Promise<number> => (await server.call(method, path)).status
    await outputsOf("static", `tasks:\n  process:\n    parallel: 4\n    ${SHARD}\n`, server)
    const runId = await server.trigger("static")
    await server.reaches(runId, "success")
    expect(await call("GET", "/workflows")).toBe(200)
    expect(await call("GET", "/workflows/static")).toBe(200)
    expect(await call("POST", "/workflows/static/runs")).toBe(201)
    expect(await call("GET", "/runs")).toBe(200)
    expect(await call("GET", `/runs/${runId}`)).toBe(200)
    expect(await call("GET", "/runs/nonsense")).toBe(404)
    expect(await call("GET", `/runs/${runId}/tasks`)).toBe(200)
    expect(await call("GET", `/runs/${runId}/tasks/process/logs?index=0`)).toBe(200)
    expect(await call("POST", `/runs/${runId}/cancel`)).toBe(409)
    expect(await call("POST", `/runs/${runId}/retry`)).toBe(409)
    expect(await call("DELETE", "/workflows/static")).toBe(204)
  })
})

describe("002: executors per task", () => {
  it("a local script of script_dir and a Python task run in one graph", async () => {
    const cwd = temporaryFolder()
    mkdirSync(join(cwd, "scripts"))
    mkdirSync(join(cwd, "tasks"))
    writeFileSync(join(cwd, "scripts/extract.sh"), "#!/bin/sh\necho '{\"rows\":3}'\n")
    chmodSync(join(cwd, "scripts/extract.sh"), 0o755)
    writeFileSync(join(cwd, "tasks/load.py"), "def main(input):\n    return {'loaded': input['extract']['rows']}\n")
    const flow = `name: mixed
tasks:
  extract: { command: extract.sh, script_dir: scripts }
  load: { executor: python, file: tasks/load.py, depends_on: [extract] }
`
    writeFileSync(join(cwd, "flow.yaml"), flow)
    const { run } = await orkRun(["flow.yaml"], { cwd })
    expect(run.status).toBe("success")
    const shown = JSON.parse((await ork(["show", "latest", "--json"], { cwd })).stdout) as { task_list: unknown[] }
    expect(shown.task_list).toMatchObject([{ output: { rows: 3 } }, { output: { loaded: 3 }, input: { extract: { rows: 3 } } }])
  })
})

/** Steps 4 to 7 of "How To Run", as printed. */
const HOW_TO_RUN = [
  `curl -s -X POST http://localhost:8000/workflows \\
  -H "X-API-Key: airflow-mini-secret-key" \\
  -H "Content-Type: application/json" \\
  -d '{
    "id": "example_workflow",
    "tasks": [
      {"id": "A", "command": "echo A", "dependencies": []},
      {"id": "B", "command": "echo B", "dependencies": ["A"]},
      {"id": "C", "command": "echo C", "dependencies": ["A"]},
      {"id": "D", "command": "echo D", "dependencies": ["B", "C"]}
    ]
  }'`,
  `curl -s -X POST http://localhost:8000/workflows/example_workflow/run \\
  -H "X-API-Key: airflow-mini-secret-key"`,
  `curl -s http://localhost:8000/runs/<run_id> \\
  -H "X-API-Key: airflow-mini-secret-key"`,
  `curl -s http://localhost:8000/runs/<run_id>/tasks \\
  -H "X-API-Key: airflow-mini-secret-key"`,
] as const

describe("003: how to run", () => {
  it("a server, two workers and the curl commands run the example workflow on both workers", async () => {
    const workers = await Promise.all([startListener(KEY), startListener(KEY)])
    const ports = workers.map(({ url }) => new URL(url).port)
    const server = await startServer([], { cwd: temporaryFolder(), env: { ORK_API_KEY: KEY, ORK_WORKERS: ports.join(",") } })
    /** Runs a command with the server's own address. */
    const shell = async (command: string, runId = ""): Promise<Record<string, unknown>> => {
      const text = command.replace("http://localhost:8000", server.url).replace("<run_id>", runId)
      return JSON.parse((await execute("sh", ["-c", text])).stdout) as Record<string, unknown>
    }
    const [register, trigger, checkRun, checkTasks] = HOW_TO_RUN
    expect(await shell(register)).toMatchObject({ name: "example_workflow" })
    const { id, status } = (await shell(trigger)) as { id: string; status: string }
    expect(["pending", "running"]).toContain(status)
    await server.reaches(id, "success", "failed")
    expect(await shell(checkRun, id)).toMatchObject({ id, status: "success" })
    const { items } = (await shell(checkTasks, id)) as { items: { name: string; status: string; external_id: string }[] }
    expect(items.map((task) => [task.name, task.status])).toEqual(["A", "B", "C", "D"].map((name) => [name, "success"]))
    expect(new Set(items.map((task) => task.external_id)).size).toBe(2)
  })
})

describe("004: the rules of jobs, as exported functions", () => {
  const policy = (backoff_strategy: JobRetryPolicy["backoff_strategy"]): JobRetryPolicy => ({
    max_attempts: 3,
    backoff_strategy,
    base_delay_seconds: 10,
    max_delay_seconds: 300,
  })

  it.each([
    ["FIXED", [10, 10, 10, 10]],
    ["LINEAR", [10, 20, 30, 40]],
    ["EXPONENTIAL", [10, 20, 40, 80]],
  ] as const)("2.3.1 the delays of %s are %j", (strategy, delays) => {
    expect([1, 2, 3, 4].map((attempt) => retryDelay(policy(strategy), attempt))).toEqual(delays)
    expect(retryDelay(policy(strategy), 10)).toBe(strategy === "FIXED" ? 10 : strategy === "LINEAR" ? 100 : 300)
  })

  it("2.1.1 detects cycles, and accepts empty and external dependencies", () => {
    expect(detectCycle("a", ["a"], new Map())).toEqual({ has_cycle: true, cycle_path: ["a"] })
    expect(detectCycle("a", [], new Map())).toEqual({ has_cycle: false, cycle_path: [] })
    expect(detectCycle("a", ["elsewhere"], new Map())).toMatchObject({ has_cycle: false })
    expect(detectCycle("a", ["b"], new Map([["b", ["c"]], ["c", ["a"]]]))).toMatchObject({ has_cycle: true }) // prettier-ignore
  })

  it("2.1.2 decides readiness, 2.2 orders and selects, 2.3.2 retries", () => {
    const status = (...found: JobStatus[]): string =>
      dependencyStatus({ dependencies: found.map((_, i) => String(i)) }, new Map(found.map((each, i) => [String(i), each])))
    expect([status(), status("COMPLETED"), status("COMPLETED", "RUNNING"), status("PENDING", "FAILED")]).toEqual([
      "SATISFIED",
      "SATISFIED",
      "WAITING",
      "BLOCKED",
    ])
    const job = (id: string, priority: number, created_at: string) => ({ id, priority, created_at })
    const jobs = [job("c", 5, "2026-01-01"), job("a", 5, "2026-01-02"), job("b", 5, "2026-01-01"), job("d", 9, "2026-01-03")]
    expect(orderJobs(jobs).map(({ id }) => id)).toEqual(["d", "b", "c", "a"])
    expect(selectNextJobs(jobs, 1, 3).map(({ id }) => id)).toEqual(["d", "b"])
    expect(selectNextJobs(jobs, 3, 3)).toEqual([])
    expect([2, 3].map((attempt_count) => shouldRetry({ attempt_count, retry_policy: policy("FIXED") }))).toEqual([true, false])
  })

  it("2.4 allows exactly the transitions of the table, 2.5 propagates failure and completion", () => {
    expect(JOB_TRANSITIONS.map(({ from, to }) => `${from} ${to}`)).toEqual([
      "PENDING READY",
      "PENDING BLOCKED",
      "READY RUNNING",
      "RUNNING COMPLETED",
      "RUNNING READY",
      "RUNNING FAILED",
    ])
    expect([canTransition("READY", "RUNNING"), canTransition("FAILED", "READY")]).toEqual([true, false])
    const linked = (id: string, status: JobStatus, ...dependencies: string[]) => ({ id, status, dependencies })
    const jobs = [linked("a", "FAILED"), linked("b", "PENDING", "a"), linked("c", "PENDING", "b"), linked("d", "READY", "a")]
    expect([...propagateFailure("a", jobs)]).toEqual(["b", "c"])
    const waiting = [linked("x", "COMPLETED"), linked("y", "RUNNING"), linked("z", "PENDING", "x", "y")]
    expect([...propagateCompletion("y", waiting)]).toEqual(["z"])
  })

  it("5 each endpoint has the path and the status of the document, 6 errors have its codes", async () => {
    const server = await start("--no-worker")
    const created = await server.call("POST", "/api/v1/jobs", { name: "first", queue: "mail_1", payload: { to: "ada" } })
    expect([created.status, created.body]).toEqual([
      201,
      expect.objectContaining({
        name: "first",
        queue: "mail_1",
        payload: { to: "ada" },
        priority: 5,
        status: "READY",
        dependencies: [],
        retry_policy: { max_attempts: 3, backoff_strategy: "EXPONENTIAL", base_delay_seconds: 10, max_delay_seconds: 300 },
        attempt_count: 0,
        created_at: expect.stringMatching(/Z$/) as string,
        updated_at: expect.stringMatching(/Z$/) as string,
      }),
    ])
    const id = created.body["id"] as string
    const path = `/api/v1/jobs/${id}`
    const later = await server.call("POST", "/api/v1/jobs", { name: "second", queue: "mail_1", dependencies: [id] })
    expect([later.status, later.body["status"]]).toEqual([201, "PENDING"])
    expect(await server.call("GET", path)).toMatchObject({ status: 200, body: { id } })
    expect(await server.call("PUT", path, { priority: 10 })).toMatchObject({ status: 200, body: { priority: 10 } })
    const query = "queue=mail_1&status=READY&priority_min=1&priority_max=10&created_after=2020-01-01&created_before=2099-01-01"
    const found = await server.call("GET", `/api/v1/jobs?${query}&limit=20`)
    expect([found.status, found.body]).toMatchObject([200, { items: [{ id }], next_cursor: null, has_more: false }])
    const codeOf = async (method: string, url: string, body?: object) => {
      const response = await server.call(method, url, body)
      return [response.status, response.body.error?.code]
    }
    expect(await codeOf("POST", "/api/v1/jobs", { name: "", queue: "bad name" })).toEqual([400, "VALIDATION_ERROR"])
    expect(await codeOf("GET", `/api/v1/jobs/${"0".repeat(8)}-0000-7000-8000-${"0".repeat(12)}`)).toEqual([404, "NOT_FOUND"])
    expect(await codeOf("DELETE", path)).toEqual([409, "CONFLICT"])
    expect((await server.call("DELETE", `/api/v1/jobs/${later.body["id"] as string}`)).status).toBe(204)
    expect((await server.call("DELETE", path)).status).toBe(204)
  })

  it("4 pages jobs by a cursor that is the Base64 of `{created_at_iso}|{id}`, newest first", async () => {
    const server = await start("--no-worker")
    for (const name of ["one", "two", "three"]) await server.call("POST", "/api/v1/jobs", { name, queue: "mail" })
    const first = await server.call("GET", "/api/v1/jobs?queue=mail&limit=2")
    const [, second] = first.body["items"] as { name: string; id: string; created_at: string }[]
    expect(first.body).toMatchObject({ items: [{ name: "three" }, { name: "two" }], has_more: true })
    const cursor = Buffer.from(first.body["next_cursor"] as string, "base64").toString()
    expect(cursor).toBe(`${second!.created_at}|${second!.id}`)
    const last = await server.call("GET", `/api/v1/jobs?queue=mail&limit=2&cursor=${first.body["next_cursor"] as string}`)
    expect(last.body).toMatchObject({ items: [{ name: "one" }], has_more: false, next_cursor: null })
  })
})
