// Outages of the store, by a small server of the protocol; s3.slow.test.ts runs on a real one.

import { once } from "node:events"
import { createServer, type IncomingMessage } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"
import { expect, onTestFinished, test, vi } from "vitest"
import { S3ObjectStore } from "./s3.ts"

const setup = async () => {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "key")
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "secret")
  const stored = new Map<string, Buffer>()
  /** Number of requests whose connections break before the response. */
  const outage = { requests: 0, seen: 0 }
  const server = createServer((request: IncomingMessage, response) => {
    void (async () => {
      outage.seen++
      const body = await buffer(request)
      if (outage.requests > 0) {
        outage.requests--
        request.socket.destroy()
        return
      }
      const key = request.url!.split("?")[0]!
      if (request.method === "PUT") stored.set(key, body)
      const found = stored.get(key)
      response.writeHead(found === undefined ? 404 : 200, { etag: '"e"' })
      response.end(request.method === "GET" ? found : undefined)
    })()
  }).listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    vi.unstubAllEnvs()
    server.closeAllConnections()
    server.close()
  })
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const store = new S3ObjectStore({ bucket: "b", prefix: "", endpoint, region: null, pathStyle: true, retryDelayMs: 1 })
  return { store, outage }
}

test("writes and reads wait for a store that is away", async () => {
  const { store, outage } = await setup()
  outage.requests = 12
  await store.put("a", "one")
  outage.requests = 12
  expect(Buffer.from((await store.get("a"))!).toString()).toBe("one")
})

test("requests of users fail soon, with the reason", async () => {
  const { store, outage } = await setup()
  outage.requests = 99
  await expect(store.impatient!.get("a")).rejects.toMatchObject({ name: "ObjectStoreError", transient: true })
  expect(outage.seen).toBeLessThan(4)
})
