import { randomBytes } from "node:crypto"
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest"
import { objectStoreSuite } from "../conformance/suite.ts"
import { GcsObjectStore } from "./gcs.ts"
import { FakeGcs } from "../testing/gcs-fake.ts"

const MIB = 1 << 20
const fake = new FakeGcs("ork-bucket")
let endpoint: string

beforeAll(async () => {
  endpoint = await fake.start()
})
afterAll(() => fake.stop())
afterEach(() => {
  fake.failAll = null
  fake.failNext = { count: 0, status: 503 }
  vi.unstubAllEnvs()
})

const open = (bucket = "ork-bucket", prefix = `t/${randomBytes(6).toString("hex")}/`): GcsObjectStore =>
  new GcsObjectStore({ bucket, prefix, endpoint, retryDelayMs: 1 })

objectStoreSuite("gcs (strict fake)", async () => ({ store: open(), cleanup: async () => undefined }))

async function* pieces(count: number, size: number): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < count; i++) yield Buffer.alloc(size, i)
}

test("objects are listed with what names their content", async () => {
  const store = open()
  await store.put("in/a.csv", "x")
  await store.put("in/b.csv", "y")
  const object = { version: expect.any(String), changedAt: expect.any(Number) }
  expect(await store.listObjects("in/", { after: "in/a.csv" })).toEqual([{ key: "in/b.csv", ...object }])
  expect(await store.listObjects("in/")).toHaveLength(2)
})

test("a redirect is no success", async () => {
  const store = open()
  fake.failAll = { status: 302, message: "Found" }
  await expect(store.put("a", "x")).rejects.toThrow("Found")
  await expect(store.get("a")).rejects.toThrow("Found")
})

describe("resumable uploads", () => {
  test("a large stream is stored in chunks, byte for byte", async () => {
    const store = open()
    expect(await store.putStream("big", pieces(60, 400_000))).toEqual({ bytes: 24_000_000 })
    expect(await store.size("big")).toBe(24_000_000)
    for (const at of [0, 8 * MIB - 1, 8 * MIB, 16 * MIB, 23_999_999]) {
      expect((await store.getRange("big", at, at + 1))![0]).toBe(Math.floor(at / 400_000))
    }
  })

  test("a chunk that the server received partially is continued from there", async () => {
    const store = open()
    fake.truncateNextChunk = MIB
    expect(await store.putStream("cut", pieces(17, MIB))).toEqual({ bytes: 17 * MIB })
    const stored = (await store.get("cut"))!
    expect(Array.from({ length: 17 }, (_, i) => stored[i * MIB + 5])).toEqual(Array.from({ length: 17 }, (_, i) => i))
  })

  test("a large stream that fails keeps the existing object", async () => {
    const store = open()
    await store.put("big", "before")
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield* pieces(20, MIB)
      throw new Error("the source broke")
    }
    await expect(store.putStream("big", broken())).rejects.toThrow("the source broke")
    expect(Buffer.from((await store.get("big"))!).toString()).toBe("before")
    await vi.waitUntil(() => fake.openUploads === 0)
  })
})

test("more objects than fit on one page are listed and removed", async () => {
  const store = open()
  await Promise.all(Array.from({ length: 25 }, (_, i) => store.put(`many/${String(i).padStart(2, "0")}`, "x")))
  fake.maxPageSize = 10
  expect((await store.list("many/")).length).toBe(25)
  expect(await store.list("many/", { after: "many/08", limit: 12 })).toEqual(
    Array.from({ length: 12 }, (_, i) => `many/${String(i + 9).padStart(2, "0")}`),
  )
  await store.deletePrefix("many/")
  expect(await store.list("many/")).toEqual([])
  fake.maxPageSize = 1000
})

test("a transient server error is retried", async () => {
  const store = open()
  await store.put("a", "x")
  fake.failNext = { count: 1, status: 503 }
  expect(Buffer.from((await store.get("a"))!).toString()).toBe("x")
  fake.failNext = { count: 1, status: 503 }
  await store.put("a", "y")
  expect(Buffer.from((await store.get("a"))!).toString()).toBe("y")
})

describe("during an outage", () => {
  const text = async (store: GcsObjectStore, key: string): Promise<string> => Buffer.from((await store.get(key))!).toString()

  test.each([
    ["breaks connections", 0],
    ["responds with 503", 503],
  ])("writes and reads wait for a store that %s", async (_, status) => {
    const store = open()
    fake.failNext = { count: 8, status }
    await store.put("a", "one")
    fake.failNext = { count: 8, status }
    expect(await text(store, "a")).toBe("one")
  })

  test("a large upload is delayed and complete afterwards, also when the responses to its chunks are lost", async () => {
    const store = open()
    async function* interrupted(): AsyncGenerator<Uint8Array> {
      for await (const piece of pieces(17, MIB)) {
        fake.failNext = { count: 7, status: 0, late: true }
        yield piece
      }
    }
    expect(await store.putStream("big", interrupted())).toEqual({ bytes: 17 * MIB })
    const stored = (await store.get("big"))!
    expect(Array.from({ length: 17 }, (_, i) => stored[i * MIB + 5])).toEqual(Array.from({ length: 17 }, (_, i) => i))
  })

  test("requests of users fail soon, with the reason", async () => {
    fake.failNext = { count: 1_000_000, status: 503 }
    const since = performance.now()
    await expect(open().failFast!.get("a")).rejects.toMatchObject({ name: "ObjectStoreError", transient: true })
    expect(performance.now() - since).toBeLessThan(5000)
  })

  test("an outage that outlasts the retries is reported", async () => {
    fake.failNext = { count: 1_000_000, status: 500 }
    const store = new GcsObjectStore({ bucket: "ork-bucket", prefix: "", endpoint, retryDelayMs: 1, retryForMs: 50 })
    await expect(store.get("a")).rejects.toThrow(/internal error/)
  })
})

test("STORAGE_EMULATOR_HOST selects the server", async () => {
  vi.stubEnv("STORAGE_EMULATOR_HOST", endpoint)
  const store = new GcsObjectStore({ bucket: "ork-bucket", prefix: "emulated/" })
  await store.check()
  await store.put("a", "x")
  expect(fake.objects.has("emulated/a")).toBe(true)
})

describe("check explains the problem, with advice", () => {
  test("no such bucket", async () => {
    await expect(open("not-there").check()).rejects.toThrow(
      /gs:\/\/not-there\/.* cannot be used: there is no bucket not-there: create it/,
    )
  })

  test("rejected credentials, or missing permissions", async () => {
    fake.failAll = { status: 401, message: "Invalid Credentials" }
    await expect(open().check()).rejects.toThrow(/the credentials are rejected/)
    fake.failAll = { status: 403, message: "does not have storage.objects.create access" }
    await expect(open().check()).rejects.toThrow(/roles\/storage.objectUser/)
  })

  test("no server, or no credentials", async () => {
    const unreachable = new GcsObjectStore({
      bucket: "ork-bucket",
      prefix: "",
      endpoint: "http://127.0.0.1:9",
      retryDelayMs: 1,
    })
    await expect(unreachable.check()).rejects.toThrow(/cannot be reached/)
    vi.stubEnv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file")
    await expect(new GcsObjectStore({ bucket: "ork-bucket", prefix: "" }).check()).rejects.toThrow(/no\/such\/file/)
  })
})
