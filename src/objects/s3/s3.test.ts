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
  /** Keys of multipart uploads that began long ago. */
  const uploads = new Set<string>()
  const server = createServer((request: IncomingMessage, response) => {
    void (async () => {
      outage.seen++
      const body = await buffer(request)
      if (outage.requests > 0) {
        outage.requests--
        request.socket.destroy()
        return
      }
      const { pathname: key, searchParams } = new URL(request.url!, "http://s3")
      if (searchParams.has("uploads")) {
        response.end(listUploads(uploads, searchParams))
        return
      }
      if (searchParams.has("uploadId")) {
        const upload = key.slice("/b/".length)
        response.writeHead(upload.includes("refused") ? 403 : 204).end()
        if (!upload.includes("refused")) uploads.delete(upload)
        return
      }
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
  return { store, outage, uploads }
}

/** Lists ten uploads per page. */
const listUploads = (uploads: ReadonlySet<string>, query: URLSearchParams): string => {
  const after = query.get("key-marker") ?? ""
  const keys = [...uploads].toSorted().filter((key) => key.startsWith(query.get("prefix") ?? "") && key > after)
  const page = keys.slice(0, 10)
  const items = page.map(
    (key) => `<Upload><Key>${key}</Key><UploadId>u</UploadId><Initiated>2020-01-01T00:00:00.000Z</Initiated></Upload>`,
  )
  const next = `<NextKeyMarker>${page.at(-1) ?? ""}</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>`
  const truncated = `<IsTruncated>${keys.length > page.length}</IsTruncated>`
  return `<ListMultipartUploadsResult>${items.join("")}${next}${truncated}</ListMultipartUploadsResult>`
}

test("writes and reads wait for a store that is away", async () => {
  const { store, outage } = await setup()
  outage.requests = 12
  await store.put("a", "one")
  outage.requests = 12
  expect(Buffer.from((await store.get("a"))!).toString()).toBe("one")
})

test("housekeeping removes every interrupted upload of Ork, although one cannot be removed, and none of other applications", async () => {
  const { store, uploads } = await setup()
  const own = Array.from({ length: 25 }, (_, i) => `runs/${String(i).padStart(2, "0")}`)
  const stuck = "jobs/refused"
  for (const key of ["photos/1", "run", ...own, stuck, "bundles/b", "cache/c"]) uploads.add(key)
  await expect(store.removeUnfinished(1000)).rejects.toThrow("these credentials lack permissions")
  expect([...uploads]).toEqual(["photos/1", "run", stuck])
})

test("requests of users fail soon, with the reason", async () => {
  const { store, outage } = await setup()
  outage.requests = 99
  await expect(store.failFast!.get("a")).rejects.toMatchObject({ name: "ObjectStoreError", transient: true })
  expect(outage.seen).toBeLessThan(4)
})
