// usage: node bench/serve.ts [post load latency start idle schedules]
// Measures `ork serve` on SQLite from another process over HTTP with keep-alive. The client shares the cores of the machine with the
// server.

import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs"
import { Agent, request as httpRequest } from "node:http"
import { join } from "node:path"
import { print, tempFolder } from "./support.ts"

const ork = join(import.meta.dirname, "../bin/ork")
const KEY = "bench-key-0123456789"
const agent = new Agent({ keepAlive: true, maxSockets: 256 })
const wanted = (name: string): boolean => process.argv.length === 2 || process.argv.includes(name)
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

interface Server {
  url: string
  child: ChildProcess
  folder: string
  stop(): Promise<void>
}

const serve = async (
  args: string[] = [],
  files: { [name: string]: string } = {},
  env: NodeJS.ProcessEnv = {},
): Promise<Server> => {
  const folder = tempFolder()
  mkdirSync(join(folder.path, "workflows"))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder.path, "workflows", name), text)
  const child = spawn(ork, ["serve", "--dir", "workflows", "--port", "0", ...args], {
    cwd: folder.path,
    env: { ...process.env, ORK_API_KEY: KEY, ORK_LOG: "warn", ...env },
    stdio: ["ignore", "pipe", "inherit"],
  })
  let printed = ""
  const url = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`ork serve ended with ${code}: ${printed}`)))
    child.stdout.on("data", (chunk: Buffer) => {
      printed += chunk.toString()
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(printed)
      if (found !== null) resolve(found[0])
    })
  })
  const stop = async (): Promise<void> => {
    child.removeAllListeners("exit")
    child.kill("SIGTERM")
    await once(child, "exit")
    folder.remove()
  }
  return { url, child, folder: folder.path, stop }
}

const call = (
  server: Server,
  method: string,
  path: string,
  body?: object,
): Promise<{ status: number; body: string; ms: number }> =>
  new Promise((resolve, reject) => {
    const startedAt = performance.now()
    const headers = { "x-api-key": KEY, ...(body !== undefined && { "content-type": "application/json" }) }
    const request = httpRequest(server.url + path, { method, agent, headers }, (response) => {
      let text = ""
      response.setEncoding("utf8")
      response.on("data", (chunk: string) => (text += chunk))
      response.on("end", () => resolve({ status: response.statusCode!, body: text, ms: performance.now() - startedAt }))
    })
    request.on("error", reject)
    request.end(body === undefined ? undefined : JSON.stringify(body))
  })

const at = (values: number[], share: number): number =>
  Number(values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!.toFixed(1))

const ONE = { "one.yaml": "name: one\ntasks: { only: { command: ['true'] } }\n" }
const runIt = (server: Server): Promise<{ status: number; body: string; ms: number }> =>
  call(server, "POST", "/api/v1/workflows/one/runs", {})

if (wanted("post")) {
  const server = await serve([], ONE)
  const [CLIENTS, COUNT] = [64, 6000]
  for (let i = 0; i < 500; i++) await runIt(server)
  let left = COUNT
  const startedAt = performance.now()
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (left-- > 0) if ((await runIt(server)).status !== 201) throw new Error("a run was refused")
    }),
  )
  print({ bench: "post", clients: CLIENTS, runs_per_s: Math.round(COUNT / ((performance.now() - startedAt) / 1000)) })
  const times: number[] = []
  const open: Promise<void>[] = []
  for (let i = 0; i < 1000; i++) {
    open.push(runIt(server).then(({ ms }) => void times.push(ms)))
    await pause(5)
  }
  await Promise.all(open)
  print({ bench: "post at 200/s", p50_ms: at(times, 0.5), p99_ms: at(times, 0.99) })
  await server.stop()
}

// The load of the event-driven specification: 100 runs of 5 tasks that take 0.1 s, without any setting.
if (wanted("load")) {
  const task = "{ command: [sleep, '0.1'] }"
  const tasks = [1, 2, 3, 4, 5].map((i) => `  t${i}: ${task}`).join("\n")
  const server = await serve([], { "load.yaml": `name: load\ntasks:\n${tasks}\n` })
  const start = async (): Promise<{ id: string; created_at: string }> =>
    JSON.parse((await call(server, "POST", "/api/v1/workflows/load/runs", {})).body) as { id: string; created_at: string }
  const ends = async ({ id }: { id: string }): Promise<string[]> => {
    for (;;) {
      const { body } = await call(server, "GET", `/api/v1/runs/${id}/tasks`)
      const { items } = JSON.parse(body) as { items: { finished_at: string | null }[] }
      if (items.every(({ finished_at }) => finished_at !== null)) return items.map(({ finished_at }) => finished_at!)
      await pause(100)
    }
  }
  for (let i = 0; i < 5; i++) await ends(await start())
  const runs = await Promise.all(Array.from({ length: 100 }, start))
  await pause(3000)
  const times: number[] = []
  let [first, last] = [Infinity, 0]
  for (const run of runs) {
    const created = Date.parse(run.created_at)
    for (const end of await ends(run)) {
      times.push(Date.parse(end) - created)
      first = Math.min(first, created)
      last = Math.max(last, Date.parse(end))
    }
  }
  const tasks_per_s = Math.round(times.length / ((last - first) / 1000))
  print({ bench: "load of 100 runs of 5 tasks of 0.1 s", tasks_per_s, p50_ms: at(times, 0.5), p99_ms: at(times, 0.99) })
  await server.stop()
}

if (wanted("latency")) {
  const server = await serve([], {
    "wide.yaml": "name: wide\ntasks: { each: { command: ['true'], parallel: 20000, concurrency: 16 } }\n",
  })
  const { id } = JSON.parse((await call(server, "POST", "/api/v1/workflows/wide/runs", {})).body) as { id: string }
  const done = async (): Promise<number> =>
    (JSON.parse((await call(server, "GET", `/api/v1/runs/${id}`)).body) as { tasks: { success: number } }).tasks.success
  await pause(1000)
  const [first, startedAt] = [await done(), performance.now()]
  const times: number[] = []
  while (performance.now() - startedAt < 8000) {
    times.push((await call(server, "GET", `/api/v1/runs/${id}`)).ms)
    await pause(10)
  }
  const rate = ((await done()) - first) / ((performance.now() - startedAt) / 1000)
  print({ bench: "get run while tasks run", tasks_per_s: Math.round(rate), p50_ms: at(times, 0.5), p99_ms: at(times, 0.99) })
  await server.stop()
}

if (wanted("start")) {
  const server = await serve([], ONE)
  const times: number[] = []
  for (let i = 0; i < 220; i++) {
    const { id, created_at } = JSON.parse((await runIt(server)).body) as { id: string; created_at: string }
    for (;;) {
      const { items } = JSON.parse((await call(server, "GET", `/api/v1/runs/${id}/tasks`)).body) as {
        items: { started_at: string | null; status: string }[]
      }
      if (items[0]!.status !== "success") continue
      if (i >= 20) times.push(Date.parse(items[0]!.started_at!) - Date.parse(created_at))
      break
    }
  }
  print({ bench: "submit to process started", p50_ms: at(times, 0.5), p99_ms: at(times, 0.99) })
  await server.stop()
}

if (wanted("idle")) {
  const files: { [name: string]: string } = {}
  for (let i = 0; i < 1000; i++) {
    const schedule = i < 100 ? 'schedule: "0 0 1 1 *"\n' : ""
    files[`w${i}.yaml`] = `name: w${i}\n${schedule}tasks: { a: { command: "true" } }\n`
  }
  const counted = tempFolder()
  const countFile = join(counted.path, "count")
  const preload = { NODE_OPTIONS: `--import ${join(import.meta.dirname, "count-sql.ts")}`, ORK_COUNT_SQL: countFile }
  const server = await serve([], files, preload)
  await pause(5000)
  const statements = (): number => Number(readFileSync(countFile, "utf8"))
  const ticks = (): number => {
    const fields = readFileSync(`/proc/${server.child.pid}/stat`, "utf8").split(") ")[1]!.split(" ")
    return Number(fields[11]) + Number(fields[12])
  }
  const written = (): string =>
    ["ork.db", "ork.db-wal"].map((name) => statSync(join(server.folder, ".ork", name)).mtimeMs).join()
  const [before, files0, statements0] = [ticks(), written(), statements()]
  await pause(60_000)
  const rss = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.child.pid}/status`, "utf8"))![1]) / 1024
  print({
    bench: "idle for a minute, 1,000 workflows, 100 schedules",
    cpu_percent: Number(((ticks() - before) / 60).toFixed(2)),
    rss_mb: Math.round(rss),
    database_untouched: written() === files0,
    sql_before: statements0,
    sql_statements: statements() - statements0,
  })
  await server.stop()
  counted.remove()
}

if (wanted("schedules")) {
  const COUNT = 10_000
  const server = await serve(["--no-worker"])
  const due = new Date(Math.ceil((Date.now() + 90_000) / 60_000) * 60_000)
  const cron = `${due.getUTCMinutes()} ${due.getUTCHours()} * * *`
  const lanes = Array.from({ length: 32 }, async (_, lane) => {
    for (let i = lane; i < COUNT; i += 32) {
      const body = { name: `s${i}`, schedule: cron, tasks: { a: { command: "true" } } }
      const { status } = await call(server, "POST", "/api/v1/workflows", body)
      if (status !== 201) throw new Error(`deploying s${i} returned status ${status}`)
    }
  })
  await Promise.all(lanes)
  if (Date.now() > due.getTime()) throw new Error("deploying took too long; the tick has passed")
  await pause(due.getTime() - Date.now() + 30_000)
  const times: number[] = []
  const seen = new Set<string>()
  for (let cursor = ""; ;) {
    const page = JSON.parse((await call(server, "GET", `/api/v1/runs?trigger=schedule&limit=100${cursor}`)).body) as {
      items: { workflow: string; created_at: string }[]
      next_cursor: string | null
    }
    for (const run of page.items) {
      seen.add(run.workflow)
      times.push(Date.parse(run.created_at) - due.getTime())
    }
    if (page.next_cursor === null) break
    cursor = `&cursor=${encodeURIComponent(page.next_cursor)}`
  }
  print({
    bench: "schedules due at once",
    schedules: COUNT,
    runs: times.length,
    workflows: seen.size,
    last_after_ms: at(times, 1),
  })
  await server.stop()
}
process.exit(0)
