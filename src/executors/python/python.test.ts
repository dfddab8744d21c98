import { functionStopTests } from "../conformance/function-stopping.ts"
import { describe, expect, test } from "vitest"
import { functionFixture, launcherFor } from "../conformance/function-fixture.ts"
import { functionTests } from "../conformance/functions.ts"
import { pythonRuntime } from "./runtime.ts"
import { python } from "./testing.ts"

describe("a child that a function forks", () => {
  test("does not report in its place", async () => {
    const fixture = await functionFixture(pythonRuntime, "native")
    const { run, put } = launcherFor(python, () => fixture)
    put("functions.py", python.functions)
    expect(await run("fork")).toMatchObject({ state: "success", output: { inline: "parent" } })
    expect(await run("fork_and_fail")).toMatchObject({ state: "success", output: { inline: 1 } })
    expect(await run("echo", { input: "mine" })).toMatchObject({ state: "success", output: { inline: "mine" } })
    await fixture.cleanup()
  })
})

functionTests(python, () => functionFixture(pythonRuntime, "native"))

functionStopTests({ language: python, make: (options) => functionFixture(pythonRuntime, "native", options), limits: true })
