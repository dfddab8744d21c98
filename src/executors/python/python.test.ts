import { functionStopTests } from "../conformance/function-stopping.ts"
import { functionFixture } from "../conformance/function-fixture.ts"
import { functionTests } from "../conformance/functions.ts"
import { pythonRuntime } from "./runtime.ts"
import { python } from "./testing.ts"

functionTests(python, () => functionFixture(pythonRuntime, "native"))

functionStopTests({ language: python, make: (options) => functionFixture(pythonRuntime, "native", options), limits: true })
