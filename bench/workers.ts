// usage: node bench/workers.ts noop|functions|sleep [tasks]
// A worker over HTTP on this machine, server and worker in separate processes. `noop`: tasks per second with a no-op executor. `functions`:
// the same with no-op TypeScript functions of a bundle on the worker's warm pool. `sleep`: the memory that sleeping processes cost, with
// the built command. Prints one JSON line.

import { type ChildProcess, fork, spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { availableParallelism, loadavg } from "node:os"
import { join } from "node:path"
import { pino } from "pino"
import { noop, print, tempFolder } from "./support.ts"
import { buildServer, close, listen } from "../src/api/http/server.ts"
import { Engine } from "../src/engine/engine.ts"
import { inlineEvaluator } from "../src/engine/gate/evaluator.ts"
import type { EngineOptions } from "../src/engine/ports.ts"
import { createServices } from "../src/engine/services/services.ts"
import { systemClock, systemRandom } from "../src/engine/system.ts"
import { WorkerService } from "../src/engine/workers/worker-service.ts"
import type { Executor } from "../src/executors/executor.ts"
import { nodeRuntime } from "../src/executors/node/runtime.ts"
import { PoolExecutor } from "../src/executors/pool/pool-executor.ts"
import { createBundle } from "../src/objects/bundles/bundles.ts"
import { FileObjectStore } from "../src/objects/file/file.ts"
import { openSqlite } from "../src/store/sqlite/sqlite.ts"
import { Worker } from "../src/worker/worker.ts"

const KEY = "bench-key-0123456789"
const ork = join(import.meta.dirname, "../bin/ork")
const silent = { info: () => {}, warn: console.error, error: console.error }
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** The server process, without a local worker: prints its address, then serves until it is killed. */
const serveNoop = async (): Promise<void> => {
  const folder = tempFolder()
  const store = await openSqlite({ path: join(folder.path, "ork.db"), clock: systemClock, random: systemRandom })
  await store.migrate()
  const objects = new FileObjectStore(join(folder.path, "objects"))
  const parts: EngineOptions = {
    store,
    objects,
    executors: new Map(),
    evaluator: inlineEvaluator,
    clock: systemClock,
    random: systemRandom,
    log: silent,
    holder: { kind: "server", name: "bench", process: "" },
    lanes: [],
    concurrency: 16,
    maxFanout: 100_000,
    maxOutputBytes: 1 << 20,
    graceMs: 1000,
    dataDir: folder.path,
    secret: () => null,
    observer: { turn: () => desk.wake(), cancelled: () => desk.wake(true) },
  }
  const engine = new Engine(parts)
  const desk = new WorkerService({ engine, parts })
  await engine.start()
  const server = buildServer({
    engine,
    store,
    objects,
    log: pino({ level: "silent" }),
    clock: systemClock,
    random: systemRandom,
    secret: () => null,
    services: createServices({ ...parts, engine, store, wake: () => engine.wake() }),
    workers: desk,
    config: { apiKey: KEY, version: "bench" },
  })
  process.send!(await listen(server, { host: "127.0.0.1", port: 0 }))
  process.once("message", () => {
    desk.stop()
    void close(server)
      .then(() => engine.stop())
      .then(() => store.close())
      .then(() => {
        folder.remove()
        process.disconnect()
      })
  })
}

const call = async (url: string, method: string, path: string, body?: object): Promise<Record<string, unknown>> => {
  const headers = { "x-api-key": KEY, ...(body !== undefined && { "content-type": "application/json" }) }
  const response = await fetch(url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) })
  if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`)
  return (await response.json()) as Record<string, unknown>
}

const until = async (url: string, runId: string, found: (run: Record<string, unknown>) => boolean): Promise<void> => {
  while (!found(await call(url, "GET", `/runs/${runId}`))) await pause(20)
}

const startRun = async (url: string, task: object, tasks: number, query = ""): Promise<string> => {
  await call(url, "POST", `/workflows${query}`, { name: "many", tasks: { t: { parallel: tasks, ...task } } })
  return (await call(url, "POST", "/workflows/many/runs", {}))["id"] as string
}

/** Uploads a bundle with a no-op function; returns the query that names it. */
const sendFunction = async (url: string, file: string): Promise<string> => {
  const { hash, bytes } = createBundle([{ path: file, bytes: Buffer.from("export default () => null\n"), executable: false }])
  const headers = { "x-api-key": KEY, "content-type": "application/octet-stream" }
  const response = await fetch(`${url}/bundles/${hash}`, { method: "PUT", headers, body: new Uint8Array(bytes) })
  if (!response.ok) throw new Error(await response.text())
  return `?bundle=${hash}`
}

const functionsIn = (folder: string): Executor =>
  new PoolExecutor({
    runtime: nodeRuntime,
    objects: new FileObjectStore(join(folder, "objects")),
    clock: systemClock,
    helper: "auto",
    maxWorkers: 256,
    eagerWorkers: 4 * availableParallelism(),
    maxTasks: 10_000,
    idleMs: 60_000,
  })

const benchTasks = async (what: "noop" | "functions", tasks: number): Promise<void> => {
  const child = fork(import.meta.filename, ["serve-noop"])
  const [url] = (await once(child, "message")) as [string]
  const folder = tempFolder()
  const executor = what === "noop" ? noop : functionsIn(folder.path)
  const worker = new Worker({
    servers: [url],
    key: KEY,
    name: "bench",
    queues: ["default"],
    labels: [],
    capacity: 256,
    version: "bench",
    executors: new Map([[executor.name, executor]]),
    objects: new FileObjectStore(join(folder.path, "objects")),
    dataDir: folder.path,
    graceMs: 1000,
    clock: systemClock,
    random: systemRandom,
    log: silent,
  })
  const ready = Promise.withResolvers<string>()
  const done = worker.run(ready.resolve)
  await ready.promise
  const query = what === "noop" ? "" : await sendFunction(url, "noop.ts")
  const task = what === "noop" ? { command: ["true"] } : { executor: "node", file: "noop.ts" }
  const ran = async (count: number): Promise<number> => {
    const startedAt = performance.now()
    const runId = await startRun(url, task, count, query)
    await until(url, runId, (run) => run["status"] === "success")
    return performance.now() - startedAt
  }
  await ran(2000)
  const before = process.cpuUsage()
  const serverBefore = cpuOf(child)
  const ms = await ran(tasks)
  const { user, system } = process.cpuUsage(before)
  print({
    bench: `workers ${what}`,
    tasks,
    per_s: Math.round((tasks / ms) * 1000),
    /** More reliable than the rate on a shared machine. */
    worker_cpu_us_per_task: Math.round((user + system) / tasks),
    server_cpu_us_per_task: Math.round((cpuOf(child) - serverBefore) / tasks),
    load: Number(loadavg()[0]!.toFixed(1)),
  })
  worker.stop()
  await done
  child.send("stop")
  await once(child, "exit")
  folder.remove()
}

/** The CPU time of a process in microseconds, with a resolution of 10 ms. */
const cpuOf = ({ pid }: ChildProcess): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ")
  return (Number(fields[11]) + Number(fields[12])) * 10_000
}

const MIB = 2 ** 20

const rssOf = (child: ChildProcess): number => {
  const status = readFileSync(`/proc/${child.pid}/status`, "utf8")
  return (Number(/VmRSS:\s+(\d+)/.exec(status)![1]) * 1024) / MIB
}

const start = async (args: string[], cwd: string, pattern: RegExp): Promise<{ child: ChildProcess; found: string }> => {
  const env = { ...process.env, ORK_API_KEY: KEY, ORK_LOG: "error" }
  const child = spawn(ork, args, { cwd, env, stdio: ["ignore", "pipe", "inherit"] })
  let printed = ""
  const found = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`ork ${args[0]} ended with ${code}`)))
    child.stdout.on("data", (chunk: Buffer) => {
      printed += chunk.toString()
      const match = pattern.exec(printed)
      if (match !== null) resolve(match[0])
    })
  })
  child.removeAllListeners("exit")
  return { child, found }
}

const benchSleep = async (tasks: number): Promise<void> => {
  const folder = tempFolder()
  const { child: server, found: url } = await start(["serve", "--no-worker", "--port", "0"], folder.path, /http:\/\/[\d.]+:\d+/)
  const flags = ["--server", url, "--capacity", String(tasks)]
  const { child: worker } = await start(["worker", ...flags], folder.path, /takes work/)
  // A first task, so that one-time loading is not measured.
  await until(url, await startRun(url, { command: ["true"] }, 1), (run) => run["status"] === "success")
  await pause(1000)
  const before = { server: rssOf(server), worker: rssOf(worker) }
  const runId = await startRun(url, { command: ["sleep", "600"] }, tasks)
  await until(url, runId, (run) => (run["tasks"] as Record<string, number>)["running"] === tasks)
  await pause(2000)
  print({
    bench: "workers sleep",
    tasks,
    server_mib: Math.round(rssOf(server) - before.server),
    worker_mib: Math.round(rssOf(worker) - before.worker),
  })
  await call(url, "POST", `/runs/${runId}/cancel`)
  await until(url, runId, (run) => run["status"] === "cancelled")
  for (const child of [worker, server]) {
    child.kill("SIGTERM")
    await once(child, "exit")
  }
  folder.remove()
}

const [what = "noop", count] = process.argv.slice(2)
if (what === "serve-noop") await serveNoop()
else if (what === "noop" || what === "functions") await benchTasks(what, Number(count ?? 10_000))
else await benchSleep(Number(count ?? 500))
