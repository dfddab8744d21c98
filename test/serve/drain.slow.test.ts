// Shutdown of a server and a worker while the database does not respond.

import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { createDatabase, type TestDatabase } from "../support/components/postgres.ts"
import { startServer } from "../support/server.ts"
import { reached, startWorker } from "../support/worker.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

/** A proxy to the database that can be blocked: connections stay open, but transfer nothing. */
const blockableProxy = async (url: string): Promise<{ url: string; block(): void }> => {
  const { port, hostname } = new URL(url)
  const sockets: Socket[] = []
  let open = true
  const server = createServer((near) => {
    const far = connect(Number(port), hostname)
    sockets.push(near, far)
    near.on("error", () => far.destroy()).on("close", () => far.destroy())
    far.on("error", () => near.destroy()).on("close", () => open && near.destroy())
    if (open) near.pipe(far).pipe(near)
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const proxied = new URL(url)
  proxied.hostname = "127.0.0.1"
  proxied.port = String((server.address() as AddressInfo).port)
  const block = (): void => {
    open = false
    for (const socket of sockets) socket.unpipe().pause()
  }
  return { url: proxied.href, block }
}

it("a server and a worker stop within a minute, and log what they could not report", { timeout: 150_000 }, async () => {
  const proxy = await blockableProxy(database.url)
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "ork.yaml"), "grace: 500ms\n")
  const server = await startServer(["--queue", "here"], { cwd, env: { ORK_DATABASE_URL: proxy.url } })
  const worker = await startWorker(server, { name: "far", cwd })
  await server.deploy({
    name: "w",
    tasks: { a: { command: "exec sleep 600" }, b: { command: "exec sleep 600", queue: "here" } },
  })
  const runId = await server.trigger("w")
  await reached(server, runId, "running", 2)
  proxy.block()
  const stoppedAt = Date.now()
  worker.kill("SIGTERM")
  expect(await worker.exit).toEqual({ code: 0, signal: null })
  expect(worker.stderr).toContain("no server accepted the last results in time")
  server.process.kill("SIGTERM")
  expect(await server.process.exit).toEqual({ code: 0, signal: null })
  expect(server.process.stderr).toContain("shutting down with uncommitted work")
  expect(Date.now() - stoppedAt).toBeLessThan(60_000)
})
