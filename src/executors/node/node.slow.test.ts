// The same with the spawn helper in JavaScript, which finds processes by a variable only.

import { functionEndingTests } from "../conformance/function-ends.ts"
import { functionFixture } from "../conformance/function-fixture.ts"
import { nodeRuntime } from "./runtime.ts"
import { typescript } from "./testing.ts"

functionEndingTests({ language: typescript, make: (options) => functionFixture(nodeRuntime, "node", options), limits: false })
