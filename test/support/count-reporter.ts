// Prints the closing line that continuous integration reads, alone on its line.

import type { Reporter, TestModule } from "vitest/node"

export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const states = modules.flatMap((module) => [...module.children.allTests()].map((test) => test.result().state))
    const broken = modules.filter((module) => module.errors().length > 0).length
    const count = (state: string): number => states.filter((s) => s === state).length
    const skipped = count("skipped") + count("pending")
    process.stdout.write(`${count("passed")} passed, ${count("failed") + broken} failed, ${skipped} skipped\n`)
  }
}
