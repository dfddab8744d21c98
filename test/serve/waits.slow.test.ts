// Waits on real servers: one of two servers checks, another one takes over, and a restarted server goes on.

import { once } from "node:events"
import { writeFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { createDatabase, type TestDatabase } from "../support/components/postgres.ts"
import { probe, type Server, startServer } from "../support/server.ts"

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

/** A service that counts requests and responds 503 until it is ready. */
const startService = async () => {
  const service = { ready: false, requests: 0, url: "" }
  const server = createServer((_, response) => {
    service.requests += 1
    response.writeHead(service.ready ? 200 : 503).end("{}")
  })
  onTestFinished(() => void server.close())
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  service.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  return service
}

const sentence = async (server: Server, runId: string): Promise<string> =>
  JSON.stringify((await server.call("GET", `/runs/${runId}/explain`)).body)

test(
  "one of two servers checks a condition, and the other takes over when that one is killed",
  { timeout: 180_000 },
  async () => {
    const service = await startService()
    const env = {
      ORK_DATABASE_URL: database.url,
      ORK_OBJECT_STORE: `file:${join(temporaryFolder(), "objects")}`,
      ORK_API_KEY: "the key of both servers",
      ORK_HTTP_ALLOW: "127.0.0.1",
    }
    const servers = [
      await startServer([], { cwd: temporaryFolder(), env }),
      await startServer([], { cwd: temporaryFolder(), env }),
    ] as const
    const [first, second] = servers
    await first.deploy({ name: "ready", tasks: { a: { executor: "wait", url: service.url, every: "2s" } } })
    const runId = await first.trigger("ready")
    await probe(async () => ((await sentence(second, runId)).includes("the status 503") ? true : null))
    const [before, begin] = [service.requests, Date.now()]
    await new Promise((resolve) => setTimeout(resolve, 10_000))
    const checks = service.requests - before
    expect(checks).toBeGreaterThan(0)
    // Two servers would make twice as many.
    expect(checks).toBeLessThanOrEqual(Math.ceil((Date.now() - begin) / 2000) + 1)
    first.process.kill("SIGKILL")
    await first.process.exit
    service.ready = true
    await second.reaches(runId, "success")
  },
)

test("a restarted server goes on with the checks, under the same attempt", { timeout: 120_000 }, async () => {
  const cwd = temporaryFolder()
  const file = join(temporaryFolder(), "in.csv")
  const doomed = await startServer([], { cwd })
  await doomed.deploy({
    name: "arrives",
    tasks: { file: { executor: "wait", path: file, every: "1s" }, load: { depends_on: ["file"], command: "true" } },
  })
  const runId = await doomed.trigger("arrives")
  await probe(async () => ((await sentence(doomed, runId)).includes("it does not exist") ? true : null))
  doomed.process.kill("SIGKILL")
  await doomed.process.exit
  const server = await startServer([], { cwd })
  writeFileSync(file, "")
  await server.reaches(runId, "success")
  expect((await server.call("GET", `/runs/${runId}/tasks/file`)).body).toMatchObject({ attempt: 1, output: { path: file } })
})
