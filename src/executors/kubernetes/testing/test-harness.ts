// Creates a fresh fake cluster for each test of a file, and launches tasks on it.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeEach, expect, onTestFinished, vi } from "vitest"
import { type Launched, type Overrides, uniqueId } from "../../conformance/fixture.ts"
import type { Executor } from "../../executor.ts"
import type { Controllers } from "./controllers.ts"
import type { FakeCluster } from "./fake-cluster.ts"
import { fakeFixture, type FakeFixture } from "./fixture.ts"
import { launcherOf } from "./suite.ts"

export interface BlockedTask extends Launched {
  attemptId: string
  /** Name of its Job. */
  job: string
  /** Lets the task succeed with the output `[1]`. */
  go(): void
}

export const contains = (text: string): string => expect.stringContaining(text) as string

/** Waits with a long timeout, for busy machines. */
export const soon = (check: () => boolean): Promise<unknown> => vi.waitUntil(check, { timeout: 20_000, interval: 10 })

export class TestHarness {
  #fixture: FakeFixture | null = null
  readonly shell = launcherOf(() => this.fixture).shell

  constructor() {
    beforeEach(async () => {
      const fixture = await fakeFixture()
      this.#fixture = fixture
      onTestFinished(() => fixture.cleanup())
    })
  }

  get fixture(): FakeFixture {
    return this.#fixture!
  }

  get cluster(): FakeCluster {
    return this.fixture.cluster
  }

  get controllers(): Controllers {
    return this.cluster.controllers
  }

  /** Launches a task that blocks until `go`. */
  launch(more: Overrides = {}, by?: Executor): BlockedTask {
    const flag = join(this.fixture.folder, uniqueId())
    const attemptId = `t${uniqueId()}`
    const script = `echo up; while [ ! -e ${flag} ]; do sleep 0.02; done; echo '[1]'`
    const launched = this.shell(script, { attemptId, ...more }, by)
    return { ...launched, attemptId, job: `ork-${attemptId}`, go: () => writeFileSync(flag, "") }
  }

  /** Launches a task and waits until it runs. */
  async launchRunning(more: Overrides = {}, by?: Executor): Promise<BlockedTask> {
    const task = this.launch(more, by)
    await task.line("up")
    return task
  }

  /** Lets a task succeed while watches send no events. */
  async finishUnseen(task: BlockedTask): Promise<void> {
    this.cluster.watches.mute = true
    task.go()
    await soon(() => this.controllers.phaseOf(task.job) === "Succeeded")
    this.cluster.watches.mute = false
  }
}
