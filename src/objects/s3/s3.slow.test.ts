import { randomBytes } from "node:crypto"
import { once } from "node:events"
import { type AddressInfo, connect, createServer, type Socket } from "node:net"
import { CreateMultipartUploadCommand, ListMultipartUploadsCommand, S3Client } from "@aws-sdk/client-s3"
import { afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest"
import { createBucket, type TestBucket } from "../../../test/support/components/s3.ts"
import { objectStoreSuite } from "../conformance/suite.ts"
import { S3ObjectStore, type S3Options } from "./s3.ts"

const MIB = 1 << 20

let testBucket: TestBucket
let client: S3Client

beforeAll(async () => {
  testBucket = await createBucket()
  client = new S3Client({ endpoint: testBucket.endpoint, region: "us-east-1", forcePathStyle: true })
}, 240_000)

const open = (change: Partial<S3Options> = {}): S3ObjectStore =>
  new S3ObjectStore({
    bucket: testBucket.bucket,
    endpoint: testBucket.endpoint,
    region: null,
    pathStyle: true,
    prefix: fresh(),
    ...change,
  })

const fresh = (): string => `t/${randomBytes(6).toString("hex")}/`

const openUploads = async (): Promise<number> =>
  ((await client.send(new ListMultipartUploadsCommand({ Bucket: testBucket.bucket }))).Uploads ?? []).length

async function* pieces(count: number, size: number): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < count; i++) yield Buffer.alloc(size, i)
}

objectStoreSuite("s3 (radosgw)", async () => ({ store: open(), cleanup: async () => undefined }))

describe("multipart", () => {
  test("a large stream is stored in parts, byte for byte, and a broken one leaves no upload open", async () => {
    const store = open()
    expect(await store.putStream("big", pieces(100, 400_000))).toEqual({ bytes: 40_000_000 })
    expect(await store.size("big")).toBe(40_000_000)
    for (const at of [0, 8 * MIB - 1, 8 * MIB, 39_999_999]) {
      expect((await store.getRange("big", at, at + 1))![0]).toBe(Math.floor(at / 400_000))
    }
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield* pieces(30, MIB)
      throw new Error("the source broke")
    }
    await expect(store.putStream("big", broken())).rejects.toThrow("the source broke")
    expect(await store.size("big")).toBe(40_000_000)
    expect(await openUploads()).toBe(0)
  })

  test("streams of exactly one part and of one byte more are stored", async () => {
    const store = open()
    expect(await store.putStream("a", pieces(8, MIB))).toEqual({ bytes: 8 * MIB })
    expect(await store.size("a")).toBe(8 * MIB)
    async function* longer(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(8 * MIB + 1, 7)
    }
    expect(await store.putStream("b", longer())).toEqual({ bytes: 8 * MIB + 1 })
    expect(await store.size("b")).toBe(8 * MIB + 1)
  })

  test("join concatenates large and small ranges in order", async () => {
    const store = open()
    const sizes = [6 * MIB, 3, 70_000, 8 * MIB, 8 * MIB, 1, 9 * MIB, 12]
    const parts = sizes.map((size) => randomBytes(size))
    await Promise.all(parts.map((part, i) => store.put(`p/ä ${i}`, part)))
    const joined = sizes.map((size, i) => ({ key: `p/ä ${i}`, start: i === 3 ? 100 : 0, end: size }))
    await store.join("joined", joined)
    const expected = Buffer.concat(parts.map((part, i) => (i === 3 ? part.subarray(100) : part)))
    expect(Buffer.compare((await store.get("joined"))!, expected)).toBe(0)
    await store.join("small", joined.slice(1, 3))
    expect(Buffer.compare((await store.get("small"))!, Buffer.concat([parts[1]!, parts[2]!]))).toBe(0)
  })

  test("join with a missing object fails and leaves nothing", async () => {
    const store = open()
    await store.put("there", Buffer.alloc(6 * MIB))
    const lost = [
      { key: "there", start: 0, end: 6 * MIB },
      { key: "gone", start: 0, end: 6 * MIB },
    ]
    await expect(store.join("joined", lost)).rejects.toThrow()
    expect(await store.size("joined")).toBeNull()
    expect(await openUploads()).toBe(0)
  })
})

describe("an outage", () => {
  /** Opens the store through a proxy, which can break all connections and refuse the next ones. */
  const openProxy = async () => {
    const { hostname, port } = new URL(testBucket.endpoint)
    const sockets = new Set<Socket>()
    let refused = 0
    const proxy = createServer((from) => {
      if (refused > 0) {
        refused--
        from.destroy()
        return
      }
      const to = connect(Number(port), hostname)
      for (const socket of [from, to]) sockets.add(socket.on("error", () => {}))
      from.pipe(to).pipe(from)
    }).listen(0, "127.0.0.1")
    await once(proxy, "listening")
    const breakConnections = (): void => {
      for (const socket of sockets) socket.destroy()
    }
    onTestFinished(() => {
      proxy.close()
      breakConnections()
    })
    const endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const refuse = (connections: number): void => {
      refused = connections
      breakConnections()
    }
    return { store: open({ endpoint, retryDelayMs: 50 }), refuse, refused: () => refused }
  }

  test("delays a large upload, which is complete afterwards", async () => {
    const { store, refuse, refused } = await openProxy()
    async function* source(): AsyncGenerator<Uint8Array> {
      yield* pieces(20, MIB)
      refuse(15)
      yield* pieces(20, MIB)
    }
    expect(await store.putStream("big", source())).toEqual({ bytes: 40 * MIB })
    expect(await store.size("big")).toBe(40 * MIB)
    expect(refused()).toBe(0)
    expect(await openUploads()).toBe(0)
  }, 60_000)
})

test("interrupted uploads are removed when they are old enough, and only those of this store", async () => {
  const [store, other] = [fresh(), fresh()]
  for (const Key of [`${store}runs/a`, `${other}runs/a`]) {
    await client.send(new CreateMultipartUploadCommand({ Bucket: testBucket.bucket, Key }))
  }
  await open({ prefix: store }).removeUnfinished(60_000)
  expect(await openUploads()).toBe(2)
  await open({ prefix: store }).removeUnfinished(-60_000)
  expect(await openUploads()).toBe(1)
  await open({ prefix: other }).removeUnfinished(-60_000)
})

test("more than a thousand objects are listed and removed", async () => {
  const store = open()
  await Promise.all(Array.from({ length: 1100 }, (_, i) => store.put(`many/${String(i).padStart(4, "0")}`, "x")))
  expect((await store.list("many/")).length).toBe(1000)
  expect((await store.list("many/", { limit: 5000 })).length).toBe(1100)
  await store.deletePrefix("many/")
  expect(await store.list("many/")).toEqual([])
}, 60_000)

describe("check explains the problem, with advice", () => {
  afterEach(() => vi.unstubAllEnvs())

  test("no such bucket", async () => {
    await expect(open({ bucket: "not-there" }).check()).rejects.toThrow(
      /s3:\/\/not-there\/.* cannot be used: there is no bucket not-there: create it/,
    )
  })

  test("an unknown access key", async () => {
    vi.stubEnv("AWS_ACCESS_KEY_ID", "NOBODY")
    await expect(open().check()).rejects.toThrow(/the access key is unknown/)
  })

  test("a wrong secret", async () => {
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "wrong")
    await expect(open().check()).rejects.toThrow(/the secret does not match the access key/)
  })

  test("a server that accepts connections and does not respond", async () => {
    const silent = createServer().listen(0, "127.0.0.1")
    await once(silent, "listening")
    const endpoint = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    await expect(open({ endpoint, requestMs: 100 }).check()).rejects.toThrow(/does not respond in time/)
    silent.close()
  })

  test("no server", async () => {
    await expect(open({ endpoint: "http://127.0.0.1:9" }).check()).rejects.toThrow(/nothing responds at http:\/\/127.0.0.1:9/)
  })
})
