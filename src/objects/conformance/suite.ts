// The conformance suite of object stores. Needs an empty store: `objectStoreSuite("file", async () => ({ store, cleanup }))`.

import { afterEach, beforeEach, describe, expect, test } from "vitest"
import type { ObjectStore } from "../objects.ts"

export interface ObjectStoreFixture {
  store: ObjectStore
  cleanup(): Promise<void>
}

const text = (bytes: Uint8Array | null): string | null => (bytes === null ? null : Buffer.from(bytes).toString())

async function* pieces(count: number, size: number): AsyncGenerator<Uint8Array> {
  for (let i = 0; i < count; i++) yield Buffer.alloc(size, i % 251)
}

export const objectStoreSuite = (name: string, setup: () => Promise<ObjectStoreFixture>): void => {
  describe(`object store: ${name}`, () => {
    let store: ObjectStore
    let fixture: ObjectStoreFixture

    beforeEach(async () => {
      fixture = await setup()
      store = fixture.store
    })
    afterEach(() => fixture.cleanup())

    test("text and bytes are read back as written", async () => {
      await store.put("a/text", "grüße")
      await store.put("a/bytes", Uint8Array.of(0, 255, 10, 0))
      expect(text(await store.get("a/text"))).toBe("grüße")
      expect([...(await store.get("a/bytes"))!]).toEqual([0, 255, 10, 0])
    })

    test("a second put replaces the first", async () => {
      await store.put("a/x", "one, and longer")
      await store.put("a/x", "two")
      expect(text(await store.get("a/x"))).toBe("two")
      expect(await store.size("a/x")).toBe(3)
    })

    test("a missing object is null for get, getRange and size", async () => {
      await store.put("a/b", "x")
      for (const key of ["nothing", "a/c", "a/b/c", "a"]) {
        expect(await store.size(key)).toBeNull()
      }
      expect(await store.get("nothing/here")).toBeNull()
      expect(await store.getRange("nothing", 0, 10)).toBeNull()
    })

    test("a range returns the existing bytes", async () => {
      await store.put("a/digits", "0123456789")
      expect(text(await store.getRange("a/digits", 2, 5))).toBe("234")
      expect(text(await store.getRange("a/digits", 8, 100))).toBe("89")
      expect(text(await store.getRange("a/digits", 10, 20))).toBe("")
      expect(text(await store.getRange("a/digits", 50, 60))).toBe("")
    })

    test("an empty object exists", async () => {
      await store.put("a/empty", "")
      expect(await store.size("a/empty")).toBe(0)
      expect(text(await store.get("a/empty"))).toBe("")
      expect(text(await store.getRange("a/empty", 0, 10))).toBe("")
    })

    test("a stream of unknown length is stored and counted", async () => {
      expect(await store.putStream("a/stream", pieces(40, 65_536))).toEqual({ bytes: 40 * 65_536 })
      expect(await store.size("a/stream")).toBe(40 * 65_536)
      expect((await store.getRange("a/stream", 39 * 65_536, 39 * 65_536 + 1))![0]).toBe(39)
    })

    test("a failed stream keeps the existing object", async () => {
      async function* broken(): AsyncGenerator<Uint8Array> {
        yield Buffer.from("half")
        throw new Error("the source broke")
      }
      await store.put("a/kept", "before")
      await expect(store.putStream("a/kept", broken())).rejects.toThrow("the source broke")
      await expect(store.putStream("a/new", broken())).rejects.toThrow("the source broke")
      expect(text(await store.get("a/kept"))).toBe("before")
      expect(await store.list("a/")).toEqual(["a/kept"])
    })

    test("a reader never sees a part of an object that is being replaced", async () => {
      await store.put("a/whole", "0".repeat(100_000))
      const writes = (async () => {
        for (let i = 1; i < 20; i++) await store.put("a/whole", String(i % 10).repeat(100_000))
      })()
      for (let i = 0; i < 20; i++) {
        const seen = text(await store.get("a/whole"))!
        expect(seen.length).toBe(100_000)
        expect(new Set(seen).size).toBe(1)
      }
      await writes
    })

    test("list returns the keys below a prefix in byte order, in pages", async () => {
      const all = ["p/Z", "p/a-b", "p/a.c", "p/a/1", "p/a/2", "p/a0", "p/b", "p/ä"]
      for (const key of [...all.toReversed(), "q/x", "pp/x"]) await store.put(key, "x")
      expect(await store.list("p/")).toEqual(all)
      const paged: string[] = []
      for (let page = await store.list("p/", { limit: 2 }); page.length > 0;) {
        paged.push(...page)
        page = await store.list("p/", { limit: 2, after: page.at(-1)! })
      }
      expect(paged).toEqual(all)
      expect(await store.list("none/")).toEqual([])
    })

    test("deletePrefix removes the objects below the prefix and no others", async () => {
      for (const key of ["r/1/a/log", "r/1/b/log", "r/10/a/log", "r/2/a/log"]) await store.put(key, "x")
      await store.deletePrefix("r/1/")
      expect(await store.list("r/")).toEqual(["r/10/a/log", "r/2/a/log"])
      await store.deletePrefix("r/1/")
      await store.deletePrefix("r/10/")
      await store.deletePrefix("r/2/")
      expect(await store.list("r/")).toEqual([])
    })

    test("keys that lead out of the store are rejected", async () => {
      for (const key of ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/./b", "a/", "a\0b", ".."]) {
        await expect(store.put(key, "x"), JSON.stringify(key)).rejects.toThrow(/bad object key/)
        await expect(store.get(key), JSON.stringify(key)).rejects.toThrow(/bad object key/)
      }
      for (const prefix of ["../", "a/../", "/", "no-slash"]) {
        await expect(store.deletePrefix(prefix), prefix).rejects.toThrow(/bad object/)
        await expect(store.list(prefix), prefix).rejects.toThrow(/bad object/)
      }
      await store.put("kept", "x")
      await expect(store.deletePrefix("")).rejects.toThrow(/must not be empty/)
    })

    test("check succeeds and leaves no object", async () => {
      await store.check()
      expect(await store.list("")).toEqual([])
    })
  })
}
