// The same with the spawn helper in JavaScript, which finds processes by a variable only.

import { functionEndingTests } from "../conformance/function-ends.ts"
import { functionFixture } from "../conformance/function-fixture.ts"
import { pythonRuntime } from "./runtime.ts"
import { python } from "./testing.ts"

functionEndingTests({ language: python, make: (options) => functionFixture(pythonRuntime, "node", options), limits: false })
