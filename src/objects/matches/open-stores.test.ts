import { expect, test } from "vitest"
import type { ObjectStore } from "../objects.ts"
import { MemoryObjectStore } from "../testing/memory.ts"
import { OpenStores } from "./open-stores.ts"

test("a store is opened once, and again after it could not be opened", async () => {
  const opened: string[] = []
  let works = false
  const stores = new OpenStores(async (address): Promise<ObjectStore> => {
    opened.push(address)
    if (!works) throw new Error("no credentials")
    return new MemoryObjectStore()
  })
  await expect(Promise.all([stores.get("s3://a"), stores.get("s3://a")])).rejects.toThrow("no credentials")
  expect(opened).toEqual(["s3://a"])
  works = true
  expect(await stores.get("s3://a")).toBe(await stores.get("s3://a"))
  expect(opened).toEqual(["s3://a", "s3://a"])
})
