// API keys and the audit log.

import { describe, expect, it } from "vitest"
import { iso } from "../../core/model/ports.ts"
import type { KeyStore } from "../contract/keys.ts"
import type { Store } from "../contract/store.ts"
import { BEGIN, type Open, setup } from "./world.ts"

export const keyTests = (open: Open<Store & KeyStore>): void => {
  const key = { id: "k1", name: "ci", scopes: ["read", "trigger"], hash: "aa" } as const

  describe("API keys", () => {
    it("are found by the hash of their secret", async () => {
      const { store } = await setup(open)
      const made = await store.createKey({ ...key, scopes: [...key.scopes] })
      expect(made).toEqual({ id: "k1", name: "ci", scopes: ["read", "trigger"], createdAt: iso(BEGIN), lastUsedAt: null })
      expect(await store.findKey("aa")).toEqual(made)
      expect(await store.findKey("bb")).toBeNull()
    })

    it("are listed oldest first, with their last use", async () => {
      const { store, clock } = await setup(open)
      await store.createKey({ ...key, scopes: ["admin"] })
      clock.pass(1000)
      await store.createKey({ id: "k0", name: "other", scopes: ["read"], hash: "bb" })
      clock.pass(1000)
      await store.touchKeys(["k1", "nobody"])
      expect((await store.listKeys()).map(({ id, lastUsedAt }) => [id, lastUsedAt])).toEqual([
        ["k1", iso(BEGIN + 2000)],
        ["k0", null],
      ])
    })

    it("disappear when removed, and can be removed once", async () => {
      const { store } = await setup(open)
      await store.createKey({ ...key, scopes: ["read"] })
      expect(await store.removeKey("k1")).toBe(true)
      expect(await store.findKey("aa")).toBeNull()
      expect(await store.removeKey("k1")).toBe(false)
    })
  })

  it("keeps an audit log that is read in pages, newest first", async () => {
    const { store, clock } = await setup(open)
    await store.appendAudit([
      { keyId: null, action: "workflow.deploy", target: "etl", details: null },
      { keyId: "k1", action: "run.cancel", target: "r1", details: "by hand" },
    ])
    clock.pass(5)
    await store.appendAudit([{ keyId: "k1", action: "run.retry", target: "r1", details: null }])
    const page = await store.listAudit({ limit: 2 })
    expect(page.map(({ at, keyId, action, target, details }) => [at, keyId, action, target, details])).toEqual([
      [iso(BEGIN + 5), "k1", "run.retry", "r1", null],
      [iso(BEGIN), "k1", "run.cancel", "r1", "by hand"],
    ])
    const rest = await store.listAudit({ before: page[1]!.seq, limit: 2 })
    expect(rest.map(({ action, keyId }) => [action, keyId])).toEqual([["workflow.deploy", null]])
    expect(await store.trimAudit({ olderThanMs: 1, limit: 1 })).toBe(1)
    expect(await store.trimAudit({ olderThanMs: 1, limit: 9 })).toBe(1)
    expect(await store.trimAudit({ olderThanMs: 1, limit: 9 })).toBe(0)
    expect((await store.listAudit({ limit: 9 })).map(({ action }) => action)).toEqual(["run.retry"])
  })
}
