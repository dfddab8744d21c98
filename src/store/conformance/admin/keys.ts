// API keys, sessions and the audit log.

import { describe, expect, it } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import { brokenEntry } from "../../../core/rules/access/audit-chain.ts"
import { workflow } from "../../../core/testing.ts"
import { withAudit } from "../../contract/audit-scope.ts"
import type { HolderId } from "../../../core/model/ids.ts"
import type { KeyStore, NewKey } from "../../contract/keys.ts"
import type { Store } from "../../contract/store.ts"
import { BEGIN, type Open, setup } from "../world.ts"

export const keyTests = (open: Open<Store & KeyStore>): void => {
  const key: NewKey = {
    id: "k1",
    name: "ci",
    scopes: ["read", "trigger"],
    hash: "aa",
    queues: null,
    limits: null,
    createdBy: null,
    expiresInMs: null,
  }

  describe("API keys", () => {
    it("are found by the hash of their secret", async () => {
      const { store } = await setup(open)
      const limits = { workflows: ["sales-*"], tags: null }
      const made = await store.createKey({ ...key, queues: ["far"], limits, createdBy: "admin" })
      expect(made).toEqual({
        id: "k1",
        name: "ci",
        scopes: ["read", "trigger"],
        queues: ["far"],
        limits,
        createdAt: iso(BEGIN),
        createdBy: "admin",
        lastUsedAt: null,
        expiresAt: null,
      })
      expect(await store.findKey("aa")).toEqual(made)
      expect(await store.findKey("bb")).toBeNull()
    })

    it("are not found after their expiry, but listed", async () => {
      const { store, clock } = await setup(open)
      await store.createKey({ ...key, expiresInMs: 1000 })
      clock.pass(999)
      expect(await store.findKey("aa")).toMatchObject({ expiresAt: iso(BEGIN + 1000) })
      clock.pass(1)
      expect(await store.findKey("aa")).toBeNull()
      expect(await store.listKeys()).toMatchObject([{ id: "k1" }])
    })

    it("have two secrets while they are rotated", async () => {
      const { store, clock } = await setup(open)
      await store.createKey(key)
      expect(await store.rotateKey({ id: "k1", hash: "bb", overlapMs: 1000 })).toMatchObject({ id: "k1", name: "ci" })
      expect(await store.rotateKey({ id: "nobody", hash: "cc", overlapMs: 0 })).toBeNull()
      clock.pass(999)
      expect(await store.findKey("aa")).toMatchObject({ id: "k1" })
      clock.pass(1)
      expect(await store.findKey("aa")).toBeNull()
      expect(await store.findKey("bb")).toMatchObject({ id: "k1" })
    })

    it("take their workers with them when they are removed, or expire", async () => {
      const { store, clock } = await setup(open)
      const worker = { kind: "worker", name: "w", process: "", runId: null, leaseMs: 60_000 } as const
      const ids = ["1", "2", "3"].map((digit) => `01890a5d-ac96-774b-bcce-b30209900000`.slice(0, -1) + digit) as HolderId[]
      await store.createKey(key)
      await store.createKey({ ...key, id: "k2", hash: "bb", expiresInMs: 1000 })
      for (const [i, registered] of [{ id: "k1", hash: "aa" }, { id: "k2", hash: "bb" }, null].entries()) {
        await store.registerHolder({ ...worker, id: ids[i]!, tokenHash: `token ${i}`, key: registered })
      }
      const tokens = () => Promise.all(ids.map((id) => store.workerToken(id)))
      expect(await tokens()).toEqual(["token 0", "token 1", "token 2"])
      await store.removeKey("k1")
      expect(await tokens()).toEqual([null, "token 1", "token 2"])
      clock.pass(1000)
      expect(await tokens()).toEqual([null, null, "token 2"])
    })

    it("take the workers of a secret with them when it is replaced, once the overlap has ended", async () => {
      const { store, clock } = await setup(open)
      const worker = { kind: "worker", name: "w", process: "", runId: null, leaseMs: 60_000 } as const
      const ids = ["1", "2"].map((digit) => `01890a5d-ac96-774b-bcce-b3020990000${digit}` as HolderId)
      await store.createKey(key)
      await store.registerHolder({ ...worker, id: ids[0]!, tokenHash: "old", key: { id: "k1", hash: "aa" } })
      await store.rotateKey({ id: "k1", hash: "bb", overlapMs: 1000 })
      await store.registerHolder({ ...worker, id: ids[1]!, tokenHash: "new", key: { id: "k1", hash: "bb" } })
      const tokens = () => Promise.all(ids.map((id) => store.workerToken(id)))
      clock.pass(999)
      expect(await tokens()).toEqual(["old", "new"])
      clock.pass(1)
      expect(await tokens()).toEqual([null, "new"])
      await store.reapHolders(9)
      expect((await store.listHolders()).flatMap(({ id, kind }) => (kind === "worker" ? id : []))).toEqual([ids[1]])
    })

    it("are listed oldest first, with their last use", async () => {
      const { store, clock } = await setup(open)
      await store.createKey(key)
      clock.pass(1000)
      await store.createKey({ ...key, id: "k0", hash: "bb" })
      clock.pass(1000)
      await store.touchKeys(["k1", "nobody"])
      expect((await store.listKeys()).map(({ id, lastUsedAt }) => [id, lastUsedAt])).toEqual([
        ["k1", iso(BEGIN + 2000)],
        ["k0", null],
      ])
    })

    it("disappear when removed, and can be removed once", async () => {
      const { store } = await setup(open)
      await store.createKey(key)
      expect(await store.removeKey("k1")).toBe(true)
      expect(await store.findKey("aa")).toBeNull()
      expect(await store.removeKey("k1")).toBe(false)
    })
  })

  it("keeps sessions until they expire or are removed", async () => {
    const { store, clock } = await setup(open)
    await store.createSession({ hash: "aa", subject: "one", expiresInMs: 1000 })
    await store.createSession({ hash: "bb", subject: "two", expiresInMs: 1000 })
    clock.pass(999)
    expect(await store.findSession("aa")).toBe("one")
    await store.removeSession("aa")
    expect([await store.findSession("aa"), await store.findSession("bb")]).toEqual([null, "two"])
    clock.pass(1)
    expect(await store.findSession("bb")).toBeNull()
  })

  describe("the audit log", () => {
    const entry = { keyId: "k1", actor: "ci", subject: null, address: "192.0.2.1", result: "ok", details: null, request: null }
    const entries = [
      { ...entry, action: "workflow.deploy", target: "etl", keyId: null, actor: null, address: null },
      { ...entry, action: "run.cancel", target: "r1", details: "by hand" },
      { ...entry, action: "run.retry", target: "r1" },
    ]

    it("is read in pages, newest first, or oldest first after an entry", async () => {
      const { store, clock } = await setup(open)
      await store.appendAudit(entries.slice(0, 2))
      clock.pass(5)
      await store.appendAudit(entries.slice(2))
      const page = await store.listAudit({ limit: 2 })
      expect(page).toMatchObject([
        { ...entries[2]!, at: iso(BEGIN + 5) },
        { ...entries[1]!, at: iso(BEGIN) },
      ])
      const rest = await store.listAudit({ before: page[1]!.seq, limit: 2 })
      expect(rest).toMatchObject([entries[0]!])
      expect(await store.listAudit({ after: rest[0]!.seq, limit: 9 })).toEqual(page.toReversed())
    })

    it("is a chain, which goes on after its oldest entries were removed", async () => {
      const { store, clock } = await setup(open)
      await store.appendAudit(entries.slice(0, 2))
      clock.pass(5)
      await Promise.all(entries.map((each) => store.appendAudit([each])))
      expect(brokenEntry(null, await store.listAudit({ after: 0, limit: 9 }))).toBeNull()
      expect(await store.trimAudit({ olderThanMs: 1, limit: 1 })).toBe(1)
      expect(await store.trimAudit({ olderThanMs: 1, limit: 9 })).toBe(1)
      expect(await store.trimAudit({ olderThanMs: 1, limit: 9 })).toBe(0)
      const kept = await store.listAudit({ after: 0, limit: 9 })
      expect(kept.map(({ action }) => action).toSorted()).toEqual(
        [...entries.map(({ action }) => action), "audit.trim", "audit.trim"].toSorted(),
      )
      expect(brokenEntry(null, kept)).toBeNull()
      expect(brokenEntry(null, kept.toSpliced(1, 1))).not.toBeNull()
    })

    it("has one entry of a request, although its transaction is repeated", async () => {
      const { store } = await setup(open)
      const change = { ...entry, action: "run.create", target: "r1", request: "request 1", subject: "user 1" }
      await store.appendAudit([change])
      await store.appendAudit([change, { ...change, request: "request 2" }])
      const found = await store.listAudit({ after: 0, limit: 9 })
      expect(found).toMatchObject([change, { ...change, request: "request 2" }])
      expect(brokenEntry(null, found)).toBeNull()
    })

    it("gets the entry of a change that the loop commits, unless it is rejected", async () => {
      const world = await setup(open)
      await world.start(workflow({ a: {}, b: {} }))
      const claims = await world.claim(2)
      const change = { ...entry, action: "task.approve", target: "r1/a", request: "request 1" }
      const [first, second] = claims.map((claim) => ({ ...world.ended(claim), auditEntry: change }))
      await world.turn({ changes: [first!] })
      await world.turn({ changes: [first!] })
      await world.turn({
        changes: [{ ...second!, attemptId: first!.attemptId, auditEntry: { ...change, request: "request 2" } }],
      })
      expect(await world.store.listAudit({ limit: 9 })).toMatchObject([change])
    })

    it("gets the entry of a change in the transaction of the change, and none of a change that was not made", async () => {
      const { store } = await setup(open)
      const change = { ...entry, action: "key.remove", target: "k1" }
      await store.createKey(key)
      const first = await withAudit(change, () => store.removeKey("k1"))
      const second = await withAudit(change, () => store.removeKey("k1"))
      expect([first.left, second.left]).toEqual([null, change])
      expect(await store.listAudit({ limit: 9 })).toMatchObject([change])
      const failed = withAudit(change, () => store.createKey(key).then(() => store.createKey(key)))
      await expect(failed).rejects.toThrow()
      expect(await store.listAudit({ limit: 9 })).toHaveLength(2)
    })
  })
}
