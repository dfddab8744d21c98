// usage: node bench/workers.ts noop|sleep [tasks]
// A worker over HTTP on this machine. `noop`: tasks a second with an executor that does nothing, server and worker each a process.
// `sleep`: what so many sleeping processes cost in memory, of the built command. One JSON line.

import { type ChildProcess, fork, spawn } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { pino } from "pino"
import { noop, print, tempFolder } from "./support.ts"
import { buildServer, close, listen } from "../src/api/server.ts"
import { Engine } from "../src/engine/engine.ts"
import { inlineEvaluator } from "../src/engine/evaluator.ts"
import type { EngineOptions } from "../src/engine/ports.ts"
import { systemClock, systemRandom } from "../src/engine/system.ts"
import { WorkerDesk } from "../src/engine/workers/desk.ts"
import { FileObjectStore } from "../src/objects/file.ts"
import { openSqlite } from "../src/store/sqlite/sqlite.ts"
import { Worker } from "../src/worker/worker.ts"

const KEY = "bench-key-0123456789"
const ork = join(import.meta.dirname, "../bin/ork")
const silent = { info: () => {}, warn: console.error, error: console.error }
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** A server without a local worker, as a process of its own: tells its address, then serves until it is killed. */
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
    privateRun: null,
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
  const desk = new WorkerDesk({ engine, parts })
  await engine.start()
  const server = buildServer({
    engine,
    store,
    objects,
    log: pino({ level: "silent" }),
    clock: systemClock,
    random: systemRandom,
    secret: () => null,
    wake: () => engine.look(),
    workers: desk,
    config: { apiKey: KEY, version: "bench", dataDir: folder.path },
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
  const answer = await fetch(url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) })
  if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`)
  return (await answer.json()) as Record<string, unknown>
}

const until = async (url: string, runId: string, found: (run: Record<string, unknown>) => boolean): Promise<void> => {
  while (!found(await call(url, "GET", `/runs/${runId}`))) await pause(20)
}

const startRun = async (url: string, command: string[], tasks: number): Promise<string> => {
  await call(url, "POST", "/workflows", { name: "many", tasks: { t: { parallel: tasks, command } } })
  return (await call(url, "POST", "/workflows/many/runs", {}))["id"] as string
}

const benchNoop = async (tasks: number): Promise<void> => {
  const child = fork(import.meta.filename, ["serve-noop"])
  const [url] = (await once(child, "message")) as [string]
  const folder = tempFolder()
  const worker = new Worker({
    servers: [url],
    key: KEY,
    name: "bench",
    queues: ["default"],
    labels: [],
    capacity: 256,
    version: "bench",
    executors: new Map([[noop.name, noop]]),
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
  const ran = async (count: number): Promise<number> => {
    const begun = performance.now()
    const runId = await startRun(url, ["true"], count)
    await until(url, runId, (run) => run["status"] === "success")
    return performance.now() - begun
  }
  await ran(500)
  const ms = await ran(tasks)
  print({ bench: "workers noop", tasks, per_s: Math.round((tasks / ms) * 1000) })
  worker.stop()
  await done
  child.send("stop")
  await once(child, "exit")
  folder.remove()
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
  // One task first, so that what is loaded once is not counted.
  await until(url, await startRun(url, ["true"], 1), (run) => run["status"] === "success")
  await pause(1000)
  const before = { server: rssOf(server), worker: rssOf(worker) }
  const runId = await startRun(url, ["sleep", "600"], tasks)
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
else if (what === "noop") await benchNoop(Number(count ?? 10_000))
else await benchSleep(Number(count ?? 500))
