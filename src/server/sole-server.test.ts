import { expect, test } from "vitest"
import { rejectSecondServer } from "./sole-server.ts"
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

const check = (
  holders: LeaseHolderRow[],
  { kind = "sqlite", dead = [] }: { kind?: "sqlite" | "postgres"; dead?: string[] } = {},
) =>
  rejectSecondServer({
    store: { kind, listHolders: async () => holders },
    identity: "me",
    database: "sqlite:x",
    isAlive: (process) => !dead.includes(process),
  })

test("a server is rejected with the name of another live one", async () => {
  await expect(check([holder("7:1:boot")])).rejects.toThrow("already: host:7:1:boot (process 7); stop it first")
})

test("of two servers that start together, the first to register stays", async () => {
  await expect(check([holder("me"), holder("other")])).resolves.toBeUndefined()
  await expect(check([holder("other"), holder("me")])).rejects.toThrow("host:other")
})

test("dead servers, `ork run` and other servers on Postgres are no reason to reject", async () => {
  await check([holder("gone"), holder("buried", { dead: true }), holder("run", { kind: "run" })], { dead: ["gone"] })
  await check([holder("other")], { kind: "postgres" })
})
