// usage: node bench/log.ts [MiB] [object store]
// A task of `ork serve` writes a log at full speed while a client follows it over HTTP: time, what the server's memory grew by, how long its
// event loop was blocked at most, and whether every byte arrived. One JSON line.

import { type ChildProcess, spawn } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { print, tempFolder } from "./support.ts"

const [mib = "1024", store = ""] = process.argv.slice(2)
const bytes = Number(mib) << 20
const WARM_BYTES = 48 << 20
const KEY = "bench-key-0123456789"
const LINE = "The quick brown fox jumps over the lazy dog, again and again.\n"
const folder = tempFolder()
const watched = join(folder.path, "loop.json")
const headers = { "x-api-key": KEY, "content-type": "application/json" }

const server = spawn(join(import.meta.dirname, "../bin/ork"), ["serve", "--port", "0"], {
  cwd: folder.path,
  env: {
    ...process.env,
    ORK_API_KEY: KEY,
    ORK_LOG: "warn",
    LOOP_WATCH: watched,
    NODE_OPTIONS: `--import ${join(import.meta.dirname, "loop-watch.ts")}`,
    ...(store !== "" && { ORK_OBJECT_STORE: store }),
  },
  stdio: ["ignore", "pipe", "inherit"],
})

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

const rss = (): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))![1]) >> 10

const expected = (): string => {
  const hash = createHash("sha256")
  const block = Buffer.from(LINE.repeat(16_384))
  for (let left = bytes; left > 0; left -= block.length) hash.update(block.subarray(0, left))
  return hash.digest("hex")
}

const url = await address(server)
const call = async (method: string, path: string, body?: object): Promise<{ [field: string]: unknown }> => {
  const answer = await fetch(url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) })
  if (answer.status >= 300) throw new Error(`${path}: ${await answer.text()}`)
  return (await answer.json()) as { [field: string]: unknown }
}
const speak = (size: number): object => ({ speak: { command: `yes '${LINE.trim()}' | head -c ${size}` } })
await call("POST", "/workflows", { name: "warm", tasks: speak(WARM_BYTES) })
await call("POST", "/workflows", { name: "loud", tasks: speak(bytes) })
// Once before, so that only what the log costs is counted.
const warm = (await call("POST", "/workflows/warm/runs", { params: {} }))["id"] as string
await follow(warm)
const base = rss()
process.kill(server.pid!, "SIGUSR2")
let peak = base
const sampler = setInterval(() => (peak = Math.max(peak, rss())), 50)
const begun = performance.now()
const id = (await call("POST", "/workflows/loud/runs", { params: {} }))["id"] as string
const seen = await follow(id)
const seconds = (performance.now() - begun) / 1000
await new Promise((resolve) => setTimeout(resolve, 500))
clearInterval(sampler)
const loop = JSON.parse(readFileSync(watched, "utf8")) as { max_ms: number; busy_ms: number }
print({
  bench: "log",
  store: store === "" ? "file" : store.slice(0, store.indexOf(":")),
  mib: Number(mib),
  seconds: Number(seconds.toFixed(1)),
  mib_per_s: Math.round(seen.bytes / 2 ** 20 / seconds),
  exact: seen.bytes === bytes && seen.hash === expected(),
  base_rss_mb: base,
  rss_growth_mb: peak - base,
  loop_ms: loop.max_ms,
  loop_busy_ms: loop.busy_ms,
})
server.removeAllListeners("exit")
server.kill("SIGTERM")
await once(server, "exit")
folder.remove()
process.exit(0)

/** The whole log of the task, read while it is written. */
async function follow(run: string): Promise<{ bytes: number; hash: string }> {
  const hash = createHash("sha256")
  let count = 0
  const answer = await fetch(`${url}/runs/${run}/tasks/speak/logs?follow=true`, { headers })
  for await (const chunk of answer.body as unknown as AsyncIterable<Uint8Array>) {
    hash.update(chunk)
    count += chunk.byteLength
  }
  return { bytes: count, hash: hash.digest("hex") }
}
