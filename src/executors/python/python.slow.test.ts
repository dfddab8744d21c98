// Runs the tests of stops with the spawn helper in JavaScript, which finds processes only by a variable.

import { functionStopTests } from "../conformance/function-stopping.ts"
import { functionFixture } from "../conformance/function-fixture.ts"
import { pythonRuntime } from "./runtime.ts"
import { python } from "./testing.ts"

functionStopTests({ language: python, make: (options) => functionFixture(pythonRuntime, "node", options), limits: false })
