import { expect, test } from "vitest"
import { refuseSecond } from "./sole-server.ts"
import type { HolderId } from "../core/model/ids.ts"
import type { LeaseHolderRow } from "../store/contract/store.ts"

const holder = (process: string, rest: Partial<LeaseHolderRow> = {}): LeaseHolderRow => ({
  id: process as HolderId,
  kind: "server",
  name: `host:${process}`,
  leaseMs: 1,
  leaseUntil: "",
  process,
  runId: null,
  dead: false,
  capabilities: null,
  inFlight: 0,
  ...rest,
})

const refuse = (
  holders: LeaseHolderRow[],
  { kind = "sqlite", dead = [] }: { kind?: "sqlite" | "postgres"; dead?: string[] } = {},
) =>
  refuseSecond({
    store: { kind, listHolders: async () => holders },
    identity: "me",
    where: "sqlite:x",
    alive: (process) => !dead.includes(process),
  })

test("another server that lives is named", async () => {
  await expect(refuse([holder("7:1:boot")])).rejects.toThrow("already: host:7:1:boot (process 7); stop it first")
})

test("of two that registered together the first stays", async () => {
  await expect(refuse([holder("me"), holder("other")])).resolves.toBeUndefined()
  await expect(refuse([holder("other"), holder("me")])).rejects.toThrow("host:other")
})

test("the dead, `ork run` and any number on Postgres are no reason", async () => {
  await refuse([holder("gone"), holder("buried", { dead: true }), holder("run", { kind: "run" })], { dead: ["gone"] })
  await refuse([holder("other")], { kind: "postgres" })
})
