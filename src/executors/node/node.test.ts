import { functionStopTests } from "../conformance/function-stopping.ts"
import { functionFixture } from "../conformance/function-fixture.ts"
import { functionTests } from "../conformance/functions.ts"
import { nodeRuntime } from "./runtime.ts"
import { typescript } from "./testing.ts"

functionTests(typescript, () => functionFixture(nodeRuntime, "native"))

functionStopTests({ language: typescript, make: (options) => functionFixture(nodeRuntime, "native", options), limits: true })
