// Prints the names of tests that failed first and passed when repeated, and the last line of a test run, which continuous integration
// reads. A run without a test is a failure.

import type { SerializedError } from "vitest"
import type { Reporter, TestModule } from "vitest/node"

export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const states = tests.map((test) => test.result().state)
    const broken = modules.filter((module) => module.errors().length > 0).length
    const count = (state: string): number => states.filter((s) => s === state).length
    const passed = count("passed")
    const failed = count("failed") + broken + unhandled.length
    if (passed + failed === 0) process.exitCode = 1
    for (const test of tests)
      if (test.diagnostic()?.flaky === true)
        process.stdout.write(`passed only when repeated: ${test.module.relativeModuleId} > ${test.fullName}\n`)
    process.stdout.write(`${passed} passed, ${failed} failed, ${count("skipped") + count("pending")} skipped\n`)
  }
}
