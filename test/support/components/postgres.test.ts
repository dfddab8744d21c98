import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"
import { expect, onTestFinished, test } from "vitest"
import { ask, createDatabase } from "./postgres.ts"
import { startPostgres } from "./postgres-server.ts"

test("two databases of one test run are independent", async () => {
  const [one, two] = await Promise.all([createDatabase(), createDatabase()])
  await ask(one.url, "CREATE TABLE mine (id int)")
  await expect(ask(two.url, "SELECT * FROM mine")).rejects.toThrow("does not exist")
  await Promise.all([one.drop(), two.drop()])
  await expect(ask(one.url, "SELECT 1")).rejects.toThrow("does not exist")
})

test("a database can start as a copy of another", async () => {
  const first = await createDatabase()
  await ask(first.url, "CREATE TABLE copied AS SELECT 7 AS n")
  const copy = await createDatabase({ template: new URL(first.url).pathname.slice(1) })
  expect(await ask(copy.url, "SELECT n FROM copied")).toEqual([{ n: 7 }])
  await Promise.all([first.drop(), copy.drop()])
})

test("a durable server, as for benchmarks, has the settings of production", async () => {
  const server = await startPostgres({ durable: true })
  expect(await ask(server.url, "SHOW fsync")).toEqual([{ fsync: "on" }])
  expect(await ask(server.url, "SHOW synchronous_commit")).toEqual([{ synchronous_commit: "on" }])
  await server.stop()
})

test("a connection that is reset during a statement rejects that statement, and ends nothing else", async () => {
  const { url, drop } = await createDatabase()
  const proxy = createServer((client) => {
    const server = connect(Number(new URL(url).port), "127.0.0.1")
    server.pipe(client)
    client.on("data", (data) => (data.includes("pg_sleep") ? client.resetAndDestroy() : server.write(data)))
    client.on("close", () => server.destroy())
  })
  await once(proxy.listen(0, "127.0.0.1"), "listening")
  onTestFinished(async () => {
    proxy.close()
    await drop()
  })
  const through = new URL(url)
  through.port = String((proxy.address() as AddressInfo).port)
  await expect(ask(through.href, "SELECT pg_sleep(60)")).rejects.toThrow("ECONNRESET")
})
