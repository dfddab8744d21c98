import { functionStopTests } from "../conformance/function-stopping.ts"
import { describe, expect, test } from "vitest"
import { functionFixture, launcherFor } from "../conformance/function-fixture.ts"
import { functionTests } from "../conformance/functions.ts"
import { nodeRuntime } from "./runtime.ts"
import { typescript } from "./testing.ts"

describe("an error that nobody handles", () => {
  test("fails its own attempt only", async () => {
    const fixture = await functionFixture(nodeRuntime, "native")
    const { run, put } = launcherFor(typescript, () => fixture)
    put("functions.ts", typescript.functions)
    for (let i = 0; i < 5; i++) {
      expect(await run("reject_later")).toMatchObject({ state: "failed", error: "nobody handles this" })
      expect(await run("nothing")).toMatchObject({ state: "success" })
    }
    await fixture.cleanup()
  })
})

test("a worker that sends an invalid message before it is ready is killed, and its attempt fails", async () => {
  const argv = ["/bin/sh", "-c", "echo nonsense >&3; exec sleep 600"]
  const fixture = await functionFixture({ name: "node", argv: () => argv, codeKey: () => "" }, "native")
  const { run } = launcherFor(typescript, () => fixture)
  expect(await run("nothing")).toMatchObject({
    state: "failed",
    error: "could not start: its worker process sent an invalid message: its type is unknown",
  })
  await fixture.cleanup()
})

functionTests(typescript, () => functionFixture(nodeRuntime, "native"))

functionStopTests({ language: typescript, make: (options) => functionFixture(nodeRuntime, "native", options), limits: true })
