// The tests of jobs and events on Postgres, under the virtual clock too.

import { describe, onTestFinished } from "vitest"
import { createDatabase } from "../../test/support/components/postgres.ts"
import { openPostgres } from "../store/postgres/postgres.ts"
import { eventTests } from "./testing/event-tests.ts"
import { jobTests } from "./testing/job-tests.ts"
import { openKit, type TestOptions, type TestOrk } from "./test.ts"

const testOrkOnPostgres = async (options: TestOptions): Promise<TestOrk> => {
  const { url, drop } = await createDatabase()
  onTestFinished(drop)
  return await openKit({
    ...options,
    openStore: async (clock, random) => {
      const store = await openPostgres({ url, clock, random })
      // Renewals of the lease, every few seconds of weeks, would take all of the time: an engine is dead once another one starts.
      return { ...store, usesLeases: false, registerHolder: (holder) => store.registerHolder({ ...holder, leaseMs: 1 }) }
    },
  })
}

describe("on Postgres", () => {
  jobTests(testOrkOnPostgres)
  eventTests(testOrkOnPostgres)
})
