import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { createDatabase, type TestDatabase } from "../../../test/support/components/postgres.ts"
import { parseHttpAllow } from "../../core/settings/http-allow.ts"
import { ObjectStoreError } from "../../objects/errors.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { startWebServer } from "../http/testing.ts"
import { type ConditionOptions, SystemConditions } from "./conditions.ts"

const conditions = (options: Partial<ConditionOptions> = {}): SystemConditions => {
  const created = new SystemConditions({
    allow: [],
    connections: {},
    maxOutputBytes: 1 << 20,
    secret: () => null,
    openObjects: () => Promise.reject(new Error("no bucket")),
    dataDir: "/nowhere/data",
    ...options,
  })
  onTestFinished(() => created.stop())
  return created
}

describe("files", () => {
  const folder = (): string => {
    const created = mkdtempSync(join(tmpdir(), "ork-files-"))
    onTestFinished(() => rmSync(created, { recursive: true, force: true }))
    return created
  }

  it("are found by their path, also if they are folders", async () => {
    const root = folder()
    const found = conditions()
    const paths = (path: string): Promise<string[]> => found.paths(join(root, path))
    expect(await paths("a.csv")).toEqual([])
    writeFileSync(join(root, "a.csv"), "")
    expect(await paths("a.csv")).toEqual([join(root, "a.csv")])
    expect(await paths("a.csv/below")).toEqual([])
    mkdirSync(join(root, "in"))
    expect(await paths("in")).toEqual([join(root, "in")])
  })

  it("are found by a pattern, sorted", async () => {
    const root = folder()
    mkdirSync(join(root, "in"))
    for (const name of ["b.csv", "a.csv", "c.txt"]) writeFileSync(join(root, "in", name), "")
    expect(await conditions().paths(join(root, "*/*.csv"))).toEqual([join(root, "in/a.csv"), join(root, "in/b.csv")])
    expect(await conditions().paths(join(root, "nowhere/*.csv"))).toEqual([])
  })
})

describe("objects", () => {
  it("are found by their address and by a pattern", async () => {
    const keys = ["day/1/a.csv", "day/2/b.csv", "day/2/c.txt"]
    const bucket = {
      size: async (key: string) => (keys.includes(key) ? 0 : null),
      listObjects: async () => keys.map((key) => ({ key, version: "1", changedAt: 0 })),
    } as unknown as ObjectStore
    const opened: string[] = []
    const found = conditions({
      openObjects: async (address) => {
        opened.push(address)
        return bucket
      },
    })
    expect(await found.paths("s3://inbox/day/1/a.csv?region=eu")).toEqual(["s3://inbox/day/1/a.csv"])
    expect(await found.paths("s3://inbox/day/1/b.csv?region=eu")).toEqual([])
    expect(await found.paths("s3://inbox/day/*/*.csv?region=eu")).toEqual(["s3://inbox/day/1/a.csv", "s3://inbox/day/2/b.csv"])
    expect(new Set(opened)).toEqual(new Set(["s3://inbox?region=eu"]))
  })

  it("that no address can have are broken, and so are buckets without access", async () => {
    await expect(conditions().paths("s3://inbox")).rejects.toMatchObject({ name: "BrokenCondition" })
    const denied = new ObjectStoreError("s3://inbox", "these credentials lack permissions", { cause: null })
    const found = conditions({ openObjects: () => Promise.reject(denied) })
    await expect(found.paths("s3://inbox/a.csv")).rejects.toMatchObject({ name: "BrokenCondition", message: denied.message })
  })
})

describe("requests", () => {
  const send = (found: SystemConditions, fields: { [field: string]: string }) =>
    found.respond({ fields, secrets: [], timeoutMs: 10_000 })

  it("return the response, and whether its status is expected", async () => {
    const { url } = await startWebServer(({ path }, response) => {
      response.writeHead(path === "/ready" ? 200 : 503, { "content-type": "application/json" })
      response.end('{"ready":true}')
    })
    const found = conditions({ allow: parseHttpAllow(["127.0.0.1"])! })
    expect(await send(found, { url: `${url}/ready` })).toMatchObject({
      expected: true,
      response: { status: 200, body: { ready: true } },
    })
    expect(await send(found, { url: `${url}/later` })).toMatchObject({ expected: false, response: { status: 503 } })
  })

  it("are rejected for good when the address is private or no URL, and not when nobody listens", async () => {
    await expect(send(conditions(), { url: "http://127.0.0.1:1/" })).rejects.toMatchObject({ name: "BlockedRequest" })
    await expect(send(conditions(), { url: "nonsense" })).rejects.toMatchObject({ name: "BrokenCondition" })
    const allowed = conditions({ allow: parseHttpAllow(["127.0.0.1"])! })
    await expect(send(allowed, { url: "http://127.0.0.1:9/" })).rejects.not.toMatchObject({ name: "BrokenCondition" })
  })
})

/** Returns by how many MB the memory of this process was larger while the work was done. */
const memoryGrownBy = async (work: () => Promise<unknown>): Promise<number> => {
  const before = process.memoryUsage.rss()
  let most = before
  const timer = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 5)
  await work().finally(() => clearInterval(timer))
  return (Math.max(most, process.memoryUsage.rss()) - before) / 2 ** 20
}

describe("queries", () => {
  let database: TestDatabase

  beforeAll(async () => {
    database = await createDatabase()
  })
  afterAll(() => database.drop())

  const ask = (text: string, values: (string | null)[] = [], connection: string | null = null) =>
    conditions({
      connections: { dwh: { secret: "DWH" } },
      secret: (name) => (name === "DWH" ? database.url : null),
    }).firstRow({ connection, text, values, timeoutMs: 10_000 })

  it("return the first row, with their values as parameters", async () => {
    expect(await ask("select $1 = date '2026-01-31' as ready, 7 as rows", ["2026-01-31"])).toEqual({ ready: true, rows: 7 })
    expect(await ask("select 1 where $1::int > 5", ["5"])).toBeNull()
    expect(await ask("select $1::text is null as empty", [null], "dwh")).toEqual({ empty: true })
  })

  it("change nothing, and are one statement", async () => {
    await expect(ask("create table t (x int)")).rejects.toMatchObject({ name: "BrokenCondition" })
    await expect(ask("select lo_create(0) > 0")).rejects.toMatchObject({
      name: "BrokenCondition",
      message: "cannot execute lo_create() in a read-only transaction",
    })
    await expect(ask("select true) x limit 1) y; create table t (x int) --")).rejects.toMatchObject({ name: "BrokenCondition" })
    await expect(ask("select true; commit; create table t (x int)")).rejects.toMatchObject({ name: "BrokenCondition" })
  })

  it("return one row only, which has a limit", async () => {
    const grown = await memoryGrownBy(() =>
      ask("select true as ok, repeat('x', 1000) as text from generate_series(1, 100000); "),
    )
    expect(grown).toBeLessThan(64)
    await expect(ask("select true as ok, repeat('x', 50000000) as text -- all")).rejects.toThrow("select fewer columns")
    expect(await ask("values (true, 9007199254740993, date '2026-01-31')")).toEqual({
      column1: true,
      column2: "9007199254740993",
      column3: "2026-01-31",
    })
  })

  it("are broken when the database rejects them, or when no database has that name", async () => {
    await expect(ask("select truth")).rejects.toMatchObject({
      name: "BrokenCondition",
      message: 'column "truth" does not exist',
    })
    await expect(ask("select true", [], "nobody")).rejects.toThrow(
      'there is no connection "nobody"; the connections are dwh (connections in ork.yaml, or ORK_CONNECTIONS)',
    )
    await expect(conditions().firstRow({ connection: null, text: "select true", values: [], timeoutMs: 1000 })).rejects.toThrow(
      "none is configured",
    )
  })

  it("are not broken while the database cannot be reached", async () => {
    const found = conditions({ connections: { off: { url: "postgres://127.0.0.1:9/x" } } })
    const asked = found.firstRow({ connection: null, text: "select true", values: [], timeoutMs: 1000 })
    await expect(asked).rejects.toMatchObject({ code: "ECONNREFUSED" })
  })
})
