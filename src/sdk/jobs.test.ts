import { eventTests } from "./testing/event-tests.ts"
import { jobTests } from "./testing/job-tests.ts"
import { testOrk } from "./test.ts"

jobTests(testOrk)
eventTests(testOrk)
