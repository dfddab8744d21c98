// A server with ORK_WORKERS pushes its tasks to listening workers in turn, and receives their results.

import { once } from "node:events"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { readFileSync } from "node:fs"
import { expect, it, onTestFinished } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { processesOf, startOrk } from "../support/ork-process.ts"
import { probe, startServer } from "../support/server.ts"
import { reached, startListener, tasksOf } from "../support/worker.ts"

const KEY = "airflow-mini-secret-key"

const EXAMPLE = {
  id: "example_workflow",
  tasks: [
    { id: "A", command: "echo A", dependencies: [] },
    { id: "B", command: "echo B", dependencies: ["A"] },
    { id: "C", command: "echo C", dependencies: ["A"] },
    { id: "D", command: `echo D; echo '{"d":4}'`, dependencies: ["B", "C"] },
  ],
}

it("tasks run on two workers in turn, and a worker that is gone is skipped", async () => {
  const [one, two] = await Promise.all([startListener(KEY), startListener(KEY)])
  const workers = [one.url, new URL(two.url).port].join(",")
  const server = await startServer([], { cwd: temporaryFolder(), env: { ORK_API_KEY: KEY, ORK_WORKERS: workers } })
  await server.deploy(EXAMPLE)
  const run = async (): Promise<string> => (await server.call("POST", "/workflows/example_workflow/run")).body["id"] as string

  const first = await run()
  await server.reaches(first, "success", "failed")
  const tasks = await tasksOf(server, first)
  expect(tasks.map(({ name, status, error }) => [name, status, error])).toEqual(
    ["A", "B", "C", "D"].map((name) => [name, "success", null]),
  )
  const count = (url: string): number => tasks.filter(({ external_id }) => external_id === url).length
  expect([count(one.url), count(two.url)]).toEqual([2, 2])
  expect(tasks[3]!.output).toEqual({ d: 4 })
  expect((await server.call("GET", `/runs/${first}/tasks/D/logs`)).text).toBe('D\n{"d":4}\n')

  two.process.kill("SIGKILL")
  await two.process.exit
  const second = await run()
  await server.reaches(second, "success", "failed")
  expect((await tasksOf(server, second)).map(({ external_id, error }) => [external_id, error])).toEqual(
    tasks.map(() => [one.url, null]),
  )

  await server.deploy({
    name: "bad",
    tasks: {
      fails: { command: "echo it broke; exit 3" },
      late: { command: "exec sleep 60", timeout: "1s" },
    },
  })
  const bad = await server.trigger("bad")
  expect((await server.reaches(bad, "success", "failed"))["status"]).toBe("failed")
  const ended = await server.call("GET", `/runs/${bad}/tasks`)
  expect(
    (ended.body["items"] as { error: string; exit_code: number | null }[]).map(({ error, exit_code }) => [error, exit_code]),
  ).toEqual([
    [expect.stringContaining("exit code 3"), 3],
    [expect.stringContaining("timed out"), null],
  ])
})

interface Attempt {
  status: string
  error: string | null
}

it("attempts of a killed or restarted worker are lost and retried on another worker", async () => {
  const [one, two] = await Promise.all([startListener(KEY), startListener(KEY)])
  const env = { ORK_API_KEY: KEY, ORK_WORKERS: `${one.url},${two.url}`, ORK_WORKER_LEASE: "2500ms" }
  const server = await startServer([], { cwd: temporaryFolder(), env })
  const first = `[ "$ORK_ATTEMPT" = 1 ] && exec sleep 60`
  await server.deploy({ name: "w", tasks: { a: { command: `${first}; echo '{"on":"a second"}'`, retries: 0 } } })
  const attemptsOf = async (runId: string): Promise<Attempt[]> =>
    (await server.call("GET", `/runs/${runId}/tasks/a`)).body["attempts"] as Attempt[]

  const killed = await server.trigger("w")
  await reached(server, killed, "running", 1)
  const holder = (await tasksOf(server, killed))[0]!.external_id === one.url ? one : two
  const other = holder === one ? two : one
  holder.process.kill("SIGKILL")
  expect((await server.reaches(killed, "success", "failed"))["status"]).toBe("success")
  expect((await attemptsOf(killed)).map(({ status, error }) => [status, error])).toEqual([
    ["lost", `lost: the worker ${holder.url} has not answered for 2.5 s`],
    ["success", null],
  ])
  expect((await tasksOf(server, killed))[0]).toMatchObject({ external_id: other.url, output: { on: "a second" } })

  const restarted = await server.trigger("w")
  await reached(server, restarted, "running", 1)
  other.process.kill("SIGKILL")
  await other.process.exit
  await startListener(KEY, new URL(other.url).port)
  expect((await server.reaches(restarted, "success", "failed"))["status"]).toBe("success")
  expect((await attemptsOf(restarted)).map(({ status, error }) => [status, error])).toEqual([
    ["lost", expect.stringMatching(/no longer has the task|has not answered/)],
    ["success", null],
  ])
})

it("a worker stops its tasks when their server is gone", async () => {
  const worker = await startListener(KEY)
  const env = { ORK_API_KEY: KEY, ORK_WORKERS: worker.url, ORK_WORKER_LEASE: "1500ms" }
  const server = await startServer([], { cwd: temporaryFolder(), env })
  await server.deploy({ name: "w", tasks: { a: { command: "exec sleep 60" } } })
  const runId = await server.trigger("w")
  await reached(server, runId, "running", 1)
  await probe(() => (processesOf(runId).length > 0 ? true : null))
  server.process.kill("SIGKILL")
  await worker.process.printed(/does not ask about it any more/)
  await probe(() => (processesOf(runId).length === 0 ? true : null))
})

it("server and worker reject requests without a valid signature or token", async () => {
  const worker = await startListener(KEY)
  const body = JSON.stringify({
    task_instance_id: "x",
    command: "touch /tmp/owned",
    token: "t",
    callback_url: "http://127.0.0.1:1",
  })
  const headers = { "content-type": "application/json" }
  const response = await fetch(`${worker.url}/execute`, { method: "POST", headers, body })
  expect(response.status).toBe(401)
  const env = { ORK_API_KEY: KEY, ORK_WORKERS: worker.url }
  const server = await startServer([], { cwd: temporaryFolder(), env })
  const result = { task_instance_id: "x", status: "success" }
  const post = (token: string) =>
    server.call("POST", "/internal/task-result", result, { authorization: token, "x-api-key": "" })
  expect((await post("")).status).toBe(401)
  expect((await post("Bearer made-up")).status).toBe(409)
})

it("a worker with the push key alone runs tasks", async () => {
  const pushKey = "a-key-for-pushing-only"
  const worker = await startListener(pushKey, "0", "ORK_PUSH_KEY")
  const env = { ORK_API_KEY: KEY, ORK_PUSH_KEY: pushKey, ORK_WORKERS: worker.url }
  const server = await startServer([], { cwd: temporaryFolder(), env })
  expect((await server.call("GET", "/runs", undefined, { "x-api-key": pushKey })).status).toBe(401)
  await server.deploy({ name: "w", tasks: { a: { command: "echo '[1]'" } } })
  const runId = await server.trigger("w")
  expect((await server.reaches(runId, "success", "failed"))["status"]).toBe("success")
  expect((await tasksOf(server, runId))[0]).toMatchObject({ external_id: worker.url, output: [1] })
})

interface PlainTask {
  task_instance_id: string
  task_id: string
  command: string
  token: string
  callback_url: string
}

/**
 * A worker that knows only `POST /execute`: it responds 200 and reports the output later. `first`: it reports before it responds. Returns
 * the tasks that it received and the statuses of its reports.
 */
const startPlainWorker = async ({ first = false, body = "" } = {}) => {
  const executed: string[] = []
  const reported: number[] = []
  const report = async (task: PlainTask): Promise<void> => {
    const result = {
      task_instance_id: task.task_instance_id,
      status: "SUCCESS",
      output: `ran ${task.command}`,
      worker_id: "plain-1",
    }
    const headers = { "content-type": "application/json", authorization: `Bearer ${task.token}` }
    reported.push((await fetch(task.callback_url, { method: "POST", headers, body: JSON.stringify(result) })).status)
  }
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = (await request.toArray()).join("")
    if (request.url !== "/execute") return void response.writeHead(404).end()
    const task = JSON.parse(text) as PlainTask
    executed.push(task.task_id)
    if (first) await report(task)
    response.writeHead(200).end(body)
    if (!first) setTimeout(() => void report(task), 1500)
  }
  const server = createServer((request, response) => void handle(request, response))
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => (server.closeAllConnections(), void server.close()))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, executed, reported }
}

it.each([
  ["responds 200 with JSON", { body: '{"status":"accepted"}' }],
  ["responds 200 without a body", {}],
  ["reports before it responds", { first: true }],
])("a worker without /alive and /stop that %s runs each task once, and its results count", async (_, how) => {
  const worker = await startPlainWorker(how)
  const env = { ORK_API_KEY: KEY, ORK_WORKERS: worker.url, ORK_WORKER_LEASE: "500ms" }
  const server = await startServer([], { cwd: temporaryFolder(), env })
  await server.deploy(EXAMPLE)
  const runId = (await server.call("POST", "/workflows/example_workflow/run")).body["id"] as string
  expect((await server.reaches(runId, "success", "failed"))["status"]).toBe("success")
  expect(worker.executed.toSorted()).toEqual(["A", "B", "C", "D"])
  expect(worker.reported).toEqual([204, 204, 204, 204])
  const tasks = await tasksOf(server, runId)
  expect(tasks[0]).toMatchObject({ name: "A", output: "ran echo A", worker: "plain-1", attempt: 1 })
  const { body } = await server.call("GET", "/workers")
  expect(body["items"]).toContainEqual(
    expect.objectContaining({ kind: "push", id: worker.url, name: worker.url, alive: true, running: 0 }),
  )
})

it("a worker without /alive has until the timeout of the task, and a push worker that is gone is listed as dead", async () => {
  const worker = createServer((request, response) => void response.writeHead(request.url === "/execute" ? 200 : 404).end())
  worker.listen(0, "127.0.0.1")
  await once(worker, "listening")
  const url = `http://127.0.0.1:${(worker.address() as AddressInfo).port}`
  const env = { ORK_API_KEY: KEY, ORK_WORKERS: url, ORK_WORKER_LEASE: "500ms", ORK_GRACE: "100ms" }
  const server = await startServer([], { cwd: temporaryFolder(), env })
  await server.deploy({ name: "w", tasks: { a: { command: "true", timeout: "2s" } } })
  const runId = await server.trigger("w")
  expect((await server.reaches(runId, "success", "failed"))["status"]).toBe("failed")
  const { body } = await server.call("GET", `/runs/${runId}/tasks/a`)
  expect(body).toMatchObject({ attempt: 1, error: "timed out after 2s", worker: url })
  worker.closeAllConnections()
  worker.close()
  await once(worker, "close")
  const { body: workers } = await server.call("GET", "/workers")
  expect(workers["items"]).toContainEqual(expect.objectContaining({ id: url, alive: false }))
})

it("tasks on a push worker get the same variables as elsewhere", async () => {
  const worker = await startListener(KEY)
  const env = { ORK_API_KEY: KEY, ORK_WORKERS: worker.url }
  const server = await startServer([], { cwd: temporaryFolder(), env })
  await server.deploy({
    name: "variables",
    tasks: {
      a: {
        parallel: 2,
        command:
          'printf \'["%s","%s","%s","%s"]\' "$ORK_WORKFLOW_NAME" "$ORK_PARALLEL_INDEX" "$ORK_PARALLEL_COUNT" "$ORK_LOGICAL_DATE"',
      },
    },
  })
  const at = "2026-03-01T00:00:00.000Z"
  const runId = (await server.call("POST", "/workflows/variables/runs", { logical_date: at })).body["id"] as string
  expect((await server.reaches(runId, "success", "failed"))["status"]).toBe("success")
  expect((await tasksOf(server, runId)).map(({ output }) => output)).toEqual([
    ["variables", "0", "2", at],
    ["variables", "1", "2", at],
  ])
  await server.call("POST", "/workflows", readFileSync("examples/parallel.yaml", "utf8"), {
    "content-type": "application/yaml",
  })
  const parallel = await server.trigger("parallel")
  expect((await server.reaches(parallel, "success", "failed"))["status"]).toBe("success")
})

it("a listening worker whose port is taken exits with the error", async () => {
  const first = await startListener(KEY)
  const { port } = new URL(first.url)
  const second = startOrk(["worker", "--listen", port], { cwd: temporaryFolder(), env: { ORK_API_KEY: KEY } })
  expect((await second.exit).code).toBe(2)
  expect(second.stderr).toBe(`ork: port ${port} is in use; choose another with --listen (0 for a free one)\n`)
})
