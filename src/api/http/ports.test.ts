// Handlers read the store directly and change it only through the services, which wake the loop. `setup` guards every other test of the
// API in the same way: its server gets a store that rejects changes.

import { expect, expectTypeOf, test } from "vitest"
import { setup } from "../testing/setup.ts"
import { rejectChanges } from "../testing/store.ts"
import { type Api, STORE_READS } from "./ports.ts"

const READ =
  /^(?:kind|usesLeases|stats|nextTickMs|workerToken|isMessageUsed|childOutputs|(?:find|get|list|search|count)[A-Z]\w*)$/

test("handlers see only reads of the store", () => {
  expectTypeOf<keyof Api["store"]>().toEqualTypeOf<(typeof STORE_READS)[number]>()
  expect(STORE_READS.filter((name) => !READ.test(name))).toEqual([])
})

test("a handler that changes the store directly fails", async () => {
  await using api = await setup()
  expect(() => rejectChanges(api.store).createJobs([])).toThrow("use a service of the engine in place of store.createJobs")
  expect(await rejectChanges(api.store).listKeys()).toEqual([])
})
