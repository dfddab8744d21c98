// The connection breaks at the COMMIT of a transaction: whether Postgres has committed or not, its writes happen exactly once.

import { mkdtempSync, rmSync } from "node:fs"
import { once } from "node:events"
import { connect, createServer, type AddressInfo, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { ask, createDatabase } from "../../test/support/components/postgres.ts"
import { txTask, workflow } from "./definitions.ts"
import { Ork } from "./ork.ts"

/** COMMIT as the transactions of users send it. Ork's own have other messages. */
const COMMIT = Buffer.from("Q\0\0\0\x0bCOMMIT\0", "latin1")

type Loss = "the COMMIT" | "its reply"

interface Proxy {
  url: string
  /** Breaks the next connections that send COMMIT. */
  breakNext(loss: Loss, times: number): void
}

/** Forwards connections to Postgres. */
const proxyOf = async (url: string): Promise<Proxy> => {
  const target = new URL(url)
  const { hostname, port } = target
  const sockets = new Set<Socket>()
  let loss: Loss = "its reply"
  let left = 0
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname)
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on("error", () => {})
      socket.on("close", () => {
        client.destroy()
        upstream.destroy()
      })
    }
    let isLost = false
    client.on("data", (data) => {
      const isCommit = left > 0 && data.includes(COMMIT)
      if (isCommit) left--
      if (isCommit && loss === "the COMMIT") return void client.destroy()
      isLost ||= isCommit
      upstream.write(data)
    })
    upstream.on("data", (data) => (isLost ? client.destroy() : client.write(data)))
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  target.port = String((server.address() as AddressInfo).port)
  target.hostname = "127.0.0.1"
  return {
    url: target.href,
    breakNext: (next, times) => {
      loss = next
      left = times
    },
  }
}

it.each<[Loss, number]>([
  ["the COMMIT", 2],
  ["its reply", 1],
])("when %s is lost, a txTask and step.tx write once", async (loss, expectedTries) => {
  const database = await createDatabase()
  const folder = mkdtempSync(join(tmpdir(), "ork-commit-"))
  await ask(database.url, "CREATE TABLE ledger (entry text)")
  const tries = { task: 0, step: 0 }
  const retry = { attempts: 3, delay: 1 }
  const pay = txTask("pay", { retry }, async (_, { tx }) => {
    tries.task++
    await tx.query("INSERT INTO ledger VALUES ('task')")
    return "paid"
  })
  const flow = workflow("flow", {}, async (_, step) => {
    return await step.tx(
      "pay",
      async (tx) => {
        tries.step++
        await tx.query("INSERT INTO ledger VALUES ('step')")
        return "paid"
      },
      { retry },
    )
  })
  const log = { info: () => {}, warn: () => {}, error: () => {} }
  const proxy = await proxyOf(database.url)
  const ork = await Ork.open({ database: proxy.url, objects: `file:${folder}`, run: [pay, flow], log })
  onTestFinished(async () => {
    await ork.stop({ grace: 0 })
    await database.drop()
    rmSync(folder, { recursive: true, force: true })
  })
  proxy.breakNext(loss, 1)
  expect(await (await ork.enqueue(pay, null)).result({ timeout: "20s" })).toBe("paid")
  proxy.breakNext(loss, 1)
  expect(await (await ork.enqueue(flow, {})).result({ timeout: "20s" })).toBe("paid")
  expect(tries).toEqual({ task: expectedTries, step: expectedTries })
  expect(await ask(database.url, "SELECT entry FROM ledger ORDER BY entry")).toEqual([{ entry: "step" }, { entry: "task" }])
})
