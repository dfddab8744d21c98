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

const check = (isServer: boolean, holders: LeaseHolderRow[]) =>
  rejectSecondServer({
    store: { becomeServer: async () => isServer, listHolders: async () => holders },
    database: "sqlite:x",
  })

test("a server is rejected with the name of the one that holds the database", async () => {
  const holders = [holder("3:1:boot", { dead: true }), holder("7:1:boot"), holder("8:1:boot", { kind: "run" })]
  await expect(check(false, holders)).rejects.toThrow("already: host:7:1:boot (process 7); stop it first")
})

test("a server is rejected while the other one has not registered yet", async () => {
  await expect(check(false, [])).rejects.toThrow("uses sqlite:x already; stop it first")
})

test("left-over holders are no reason to reject", async () => {
  await expect(check(true, [holder("7:1:boot")])).resolves.toBeUndefined()
})
