// `ork serve` in a process of its own, for benchmarks over HTTP.

import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"

const ORK = join(import.meta.dirname, "../bin/ork")
const KEY = "bench-key-0123456789"
const READY = /http:\/\/[\d.]+:\d+/

export interface OrkServer {
  url: string
  key: string
  process: ChildProcess
  stop(): Promise<void>
}

/** Starts a server without a worker on this database. `folder` is its working folder. */
export const startOrkServer = async (database: string, folder: string): Promise<OrkServer> => {
  const server = spawn(ORK, ["serve", "--no-worker", "--port", "0"], {
    cwd: folder,
    env: { ...process.env, ORK_API_KEY: KEY, ORK_LOG: "error", ORK_DATABASE_URL: database },
    stdio: ["ignore", "pipe", "inherit"],
  })
  let text = ""
  for await (const chunk of server.stdout) {
    text += String(chunk)
    if (READY.test(text)) break
  }
  return {
    url: READY.exec(text)![0],
    key: KEY,
    process: server,
    async stop() {
      const exited = once(server, "exit")
      server.kill("SIGTERM")
      await exited
    },
  }
}
