// usage: node bench/http-jobs.ts [sqlite|postgres] [jobs] [rounds]
// No-op jobs end to end, through `Ork.open` and over HTTP (`ork serve` in a process of its own, `startWorker` and `OrkClient` here), with
// default settings. Both take turns, each on a fresh database. Needs a build. Prints one JSON line with the medians and their ratio.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Ork, startWorker, task, type Work } from "ork"
import { OrkClient } from "ork/client"
import { print, tempFolder } from "./support.ts"
import { startOrkServer } from "./ork-server.ts"
import { createDatabase } from "../test/support/components/postgres.ts"

const CHUNK = 1000
const WARM_UP = 2000
/** Jobs whose results are awaited: the last ones, whose commits come last. */
const LAST = 200

const [store = "sqlite", jobs = "20000", rounds = "3"] = process.argv.slice(2)

/** Counts calls, and resolves when there were as many as wanted. */
class Calls {
  #left = 0
  #reached = (): void => {}

  readonly handler = (): null => {
    this.#left -= 1
    if (this.#left === 0) this.#reached()
    return null
  }

  expect(count: number): Promise<void> {
    this.#left = count
    return new Promise((resolve) => (this.#reached = resolve))
  }
}

interface Side {
  submit(count: number): Promise<Work<unknown>[]>
  calls: Calls
}

/** Returns jobs per second, from the first submission to the commit of the last result. */
const measure = async ({ submit, calls }: Side, count: number): Promise<number> => {
  const called = calls.expect(count)
  const begun = performance.now()
  const works: Work<unknown>[] = []
  for (let left = count; left > 0; left -= CHUNK) works.push(...(await submit(Math.min(CHUNK, left))))
  await called
  await Promise.all(works.slice(-LAST).map((work) => work.result()))
  return Math.round((count / (performance.now() - begun)) * 1000)
}

const database = async (): Promise<{ url: string; drop(): Promise<void> }> => {
  if (store === "postgres") return await createDatabase()
  const folder = tempFolder()
  return { url: `sqlite:${join(folder.path, "ork.db")}`, drop: async () => folder.remove() }
}

const direct = async (): Promise<number> => {
  const folder = tempFolder()
  const { url, drop } = await database()
  const calls = new Calls()
  const noop = task("noop", {}, calls.handler)
  const ork = await Ork.open({ database: url, objects: `file:${folder.path}`, run: [noop] })
  const side: Side = {
    calls,
    submit: (count) =>
      ork.enqueueAll(
        noop,
        Array.from({ length: count }, () => ({})),
      ),
  }
  await measure(side, WARM_UP)
  const rate = await measure(side, Number(jobs))
  await ork.stop()
  await drop()
  folder.remove()
  return rate
}

/** CPU seconds of a process. */
const cpuOf = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ")
  return (Number(fields[11]) + Number(fields[12])) / 100
}

interface HttpRate {
  rate: number
  serverUs: number
  workerUs: number
}

const overHttp = async (): Promise<HttpRate> => {
  const folder = tempFolder()
  const { url: databaseUrl, drop } = await database()
  const server = await startOrkServer(databaseUrl, folder.path)
  const { url, key: apiKey } = server
  const calls = new Calls()
  const worker = await startWorker({ server: url, apiKey, functions: { noop: calls.handler } })
  const client = new OrkClient({ url, key: apiKey })
  const noop = task("noop", {}, () => null)
  const side: Side = {
    calls,
    submit: (count) =>
      client.enqueueAll(
        noop,
        Array.from({ length: count }, () => ({})),
      ),
  }
  await measure(side, WARM_UP)
  const before = { server: cpuOf(server.process.pid!), worker: cpuOf(process.pid) }
  const rate = await measure(side, Number(jobs))
  const perJob = (seconds: number): number => Math.round((seconds / Number(jobs)) * 1e6)
  const result = {
    rate,
    serverUs: perJob(cpuOf(server.process.pid!) - before.server),
    workerUs: perJob(cpuOf(process.pid) - before.worker),
  }
  await worker.stop()
  await server.stop()
  await drop()
  folder.remove()
  return result
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!

const seen: { direct: number[]; http: HttpRate[] } = { direct: [], http: [] }
for (let round = 0; round < Number(rounds); round++) {
  seen.direct.push(await direct())
  seen.http.push(await overHttp())
}
const of = (field: keyof HttpRate): number[] => seen.http.map((each) => each[field])
const ratio = median(of("rate")) / median(seen.direct)
print({
  bench: `http-jobs ${store}`,
  jobs: Number(jobs),
  direct_per_s: median(seen.direct),
  http_per_s: median(of("rate")),
  ratio: Number(ratio.toFixed(3)),
  server_cpu_us_per_job: median(of("serverUs")),
  worker_cpu_us_per_job: median(of("workerUs")),
  rounds: seen,
})
process.exit(0)
