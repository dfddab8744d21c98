// A server and a worker that are told to end while nobody answers them: the database is cut off, and with it the reports.

import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { createDatabase, type TestDatabase } from "../support/postgres.ts"
import { startServer } from "../support/server.ts"
import { reached, startWorker } from "../support/worker.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

/** A way to the database that can be cut: connections stay, and nothing comes through any more. */
const cuttable = async (url: string): Promise<{ url: string; cut(): void }> => {
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
  const way = new URL(url)
  way.hostname = "127.0.0.1"
  way.port = String((server.address() as AddressInfo).port)
  const cut = (): void => {
    open = false
    for (const socket of sockets) socket.unpipe().pause()
  }
  return { url: way.href, cut }
}

it("both end within a minute, and say what they could not tell", { timeout: 150_000 }, async () => {
  const way = await cuttable(database.url)
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "ork.yaml"), "grace: 500ms\n")
  const server = await startServer(["--queue", "here"], { cwd, env: { ORK_DATABASE_URL: way.url } })
  const worker = await startWorker(server, { name: "far", cwd })
  await server.deploy({
    name: "w",
    tasks: { a: { command: "exec sleep 600" }, b: { command: "exec sleep 600", queue: "here" } },
  })
  const runId = await server.trigger("w")
  await reached(server, runId, "running", 2)
  way.cut()
  const begun = Date.now()
  worker.kill("SIGTERM")
  expect(await worker.exit).toEqual({ code: 0, signal: null })
  expect(worker.stderr).toContain("no server accepted the last results in time")
  server.process.kill("SIGTERM")
  expect(await server.process.exit).toEqual({ code: 0, signal: null })
  expect(server.process.stderr).toContain("ending though not all is written down")
  expect(Date.now() - begun).toBeLessThan(60_000)
})
