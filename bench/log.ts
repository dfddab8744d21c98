// usage: node bench/log.ts [MiB] [object store] [--worker]
// A task of `ork serve`, or of a worker, writes a log at full speed while a client follows it over HTTP. Measures the time, the growth of
// memory and the longest block of an event loop, and checks that every byte arrived. Prints one JSON line.

import { type ChildProcess, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { print, tempFolder } from "./support.ts"

const { values, positionals } = parseArgs({ allowPositionals: true, options: { worker: { type: "boolean", default: false } } })
const [mib = "1024", store = ""] = positionals
const bytes = Number(mib) << 20
const WARM_BYTES = 48 << 20
const KEY = "bench-key-0123456789"
const LINE = "The quick brown fox jumps over the lazy dog, again and again.\n"
const folder = tempFolder()
const headers = { "x-api-key": KEY, "content-type": "application/json" }

interface Watched {
  child: ChildProcess
  loop: string
}

/** Starts an `ork` process that records blocks of its event loop. */
const ork = (args: string[]): Watched => {
  const loop = join(folder.path, `${args[0]}.json`)
  const child = spawn(join(import.meta.dirname, "../bin/ork"), args, {
    cwd: folder.path,
    env: {
      ...process.env,
      ORK_API_KEY: KEY,
      ORK_LOG: "warn",
      LOOP_WATCH: loop,
      NODE_OPTIONS: `--import ${join(import.meta.dirname, "loop-watch.ts")}`,
      ...(store !== "" && { ORK_OBJECT_STORE: store }),
    },
    stdio: ["ignore", "pipe", "inherit"],
  })
  return { child, loop }
}

const server = ork(["serve", "--port", "0", ...(values.worker ? ["--no-worker"] : [])])

const address = (child: ChildProcess): Promise<string> =>
  new Promise((resolve, reject) => {
    let printed = ""
    child.once("exit", (code) => reject(new Error(`ork serve ended with ${code}: ${printed}`)))
    child.stdout!.on("data", (chunk: Buffer) => {
      printed += chunk.toString()
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(printed)
      if (found !== null) resolve(`${found[0]}/api/v1`)
    })
  })

const rss = ({ child }: Watched): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))![1]) >> 10

const expected = (): string => {
  const hash = createHash("sha256")
  const block = Buffer.from(LINE.repeat(16_384))
  for (let left = bytes; left > 0; left -= block.length) hash.update(block.subarray(0, left))
  return hash.digest("hex")
}

const url = await address(server.child)
const all = values.worker ? [server, ork(["worker", "--server", new URL(url).origin])] : [server]
const call = async (method: string, path: string, body?: object): Promise<{ [field: string]: unknown }> => {
  const response = await fetch(url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) })
  if (response.status >= 300) throw new Error(`${path}: ${await response.text()}`)
  return (await response.json()) as { [field: string]: unknown }
}
const speak = (size: number): object => ({ speak: { command: `yes '${LINE.trim()}' | head -c ${size}` } })
await call("POST", "/workflows", { name: "warm", tasks: speak(WARM_BYTES) })
await call("POST", "/workflows", { name: "loud", tasks: speak(bytes) })
// A first run, so that the measurement contains the cost of the log only.
const warm = (await call("POST", "/workflows/warm/runs", { params: {} }))["id"] as string
await follow(warm)
const base = all.map(rss)
for (const { child } of all) process.kill(child.pid!, "SIGUSR2")
const peak = [...base]
const sample = (): void => all.forEach((each, i) => (peak[i] = Math.max(peak[i]!, rss(each))))
const sampler = setInterval(sample, 50)
const startedAt = performance.now()
const id = (await call("POST", "/workflows/loud/runs", { params: {} }))["id"] as string
const seen = await follow(id)
const seconds = (performance.now() - startedAt) / 1000
await new Promise((resolve) => setTimeout(resolve, 500))
clearInterval(sampler)
const loops = all.map(({ loop }) => JSON.parse(readFileSync(loop, "utf8")) as { max_ms: number; busy_ms: number })
const growth = peak.map((max, i) => max - base[i]!)
print({
  bench: "log",
  store: store === "" ? "file" : store.slice(0, store.indexOf(":")),
  mib: Number(mib),
  seconds: Number(seconds.toFixed(1)),
  mib_per_s: Math.round(seen.bytes / 2 ** 20 / seconds),
  exact: seen.bytes === bytes && seen.hash === expected(),
  base_rss_mb: base[0],
  rss_growth_mb: growth[0],
  ...(values.worker && { worker_rss_growth_mb: growth[1] }),
  loop_ms: Math.max(...loops.map(({ max_ms }) => max_ms)),
  loop_busy_ms: Math.max(...loops.map(({ busy_ms }) => busy_ms)),
})
for (const { child } of all.toReversed()) {
  child.removeAllListeners("exit")
  child.kill("SIGTERM")
  await once(child, "exit")
}
folder.remove()
process.exit(0)

/** Reads the whole log of the task while it is written. */
async function follow(run: string): Promise<{ bytes: number; hash: string }> {
  const hash = createHash("sha256")
  let count = 0
  const response = await fetch(`${url}/runs/${run}/tasks/speak/logs?follow=true`, { headers })
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
    hash.update(chunk)
    count += chunk.byteLength
  }
  return { bytes: count, hash: hash.digest("hex") }
}
