// Patterns of objects on a real S3 server.

import { beforeAll, expect, test } from "vitest"
import { createBucket, type TestBucket } from "../../../test/support/components/s3.ts"
import { parseObjectAddress } from "../../core/settings/object-address.ts"
import type { ObjectStore } from "../objects.ts"
import { openObjectStore } from "../open.ts"
import { type Match, MatchFinder } from "./matches.ts"

let bucket: TestBucket
let objects: ObjectStore
let finder: MatchFinder

const open = (address: string): Promise<ObjectStore> => openObjectStore(parseObjectAddress(address)!)

/** Pattern of objects of the bucket: the options of an address are at its end. */
const pattern = (key: string): string =>
  `s3://${bucket.bucket}/${key}?endpoint=${encodeURIComponent(bucket.endpoint)}&path_style=true`

const find = async (key: string): Promise<Match[]> => {
  const found: Match[] = []
  for await (const match of finder.find(pattern(key))) found.push(match)
  return found
}

const keysOf = (found: readonly Match[]): string[] => found.map(({ path }) => path.slice(`s3://${bucket.bucket}/`.length))

beforeAll(async () => {
  bucket = await createBucket()
  objects = await open(`s3://${bucket.bucket}?endpoint=${encodeURIComponent(bucket.endpoint)}&path_style=true`)
  finder = new MatchFinder({ openObjects: open, dataDir: "/nowhere" })
}, 240_000)

test("objects are found by their names, in folders and with special characters", async () => {
  const keys = ["in/a.csv", "in/b.txt", "in/.c.csv", "in/deep/er/d.csv", "in/ä & b+c.csv", "other/a.csv"]
  await Promise.all(keys.map((key) => objects.put(key, Buffer.from(key))))
  expect(keysOf(await find("in/*.csv"))).toEqual(["in/a.csv", "in/ä & b+c.csv"])
  expect(keysOf(await find("in/**"))).toEqual(["in/a.csv", "in/b.txt", "in/deep/er/d.csv", "in/ä & b+c.csv"])
  expect(keysOf(await find("**/a.csv"))).toEqual(["in/a.csv", "other/a.csv"])
  expect(await find("none/*.csv")).toEqual([])
})

test("an object that is written again has another version", async () => {
  await objects.put("versions/a", Buffer.from("one"))
  const [first] = await find("versions/*")
  await objects.put("versions/a", Buffer.from("two"))
  const [second] = await find("versions/*")
  expect(first).toMatchObject({ complete: true })
  expect(second!.version).not.toBe(first!.version)
  expect(Math.abs(Date.now() - second!.changedAt)).toBeLessThan(600_000)
})

test("more objects than a page of the list are all found", { timeout: 240_000 }, async () => {
  const keys = Array.from({ length: 1050 }, (_, i) => `many/${String(i).padStart(4, "0")}.csv`)
  for (let i = 0; i < keys.length; i += 50)
    await Promise.all(keys.slice(i, i + 50).map((key) => objects.put(key, Buffer.from("x"))))
  expect(keysOf(await find("many/*.csv"))).toEqual(keys)
})
