// Runs the tests of stops with the spawn helper in JavaScript, which finds processes only by a variable.

import { functionStopTests } from "../conformance/function-stopping.ts"
import { functionFixture } from "../conformance/function-fixture.ts"
import { nodeRuntime } from "./runtime.ts"
import { typescript } from "./testing.ts"

functionStopTests({ language: typescript, make: (options) => functionFixture(nodeRuntime, "node", options), limits: false })
