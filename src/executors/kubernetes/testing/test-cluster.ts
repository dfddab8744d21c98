// A fresh fake cluster for each test of a file, and work on it.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { beforeEach, expect, onTestFinished, vi } from "vitest"
import { type Launched, type Overrides, uniqueId } from "../../conformance/fixture.ts"
import type { Executor } from "../../executor.ts"
import type { Controllers } from "./controllers.ts"
import type { FakeCluster } from "./fake-cluster.ts"
import { fakeFixture, type FakeFixture } from "./fixture.ts"
import { workOn } from "./suite.ts"

export interface Waiting extends Launched {
  attemptId: string
  /** Name of its Job. */
  job: string
  /** Lets it end, with the output `[1]`. */
  go(): void
}

export const contains = (text: string): string => expect.stringContaining(text) as string

/** However busy the machine is. */
export const soon = (check: () => boolean): Promise<unknown> => vi.waitUntil(check, { timeout: 20_000, interval: 10 })

export class Bench {
  #fixture: FakeFixture | null = null
  readonly shell = workOn(() => this.fixture).shell

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

  /** A task that waits for `go`. */
  waiting(more: Overrides = {}, by?: Executor): Waiting {
    const flag = join(this.fixture.folder, uniqueId())
    const attemptId = `t${uniqueId()}`
    const script = `echo up; while [ ! -e ${flag} ]; do sleep 0.02; done; echo '[1]'`
    const launched = this.shell(script, { attemptId, ...more }, by)
    return { ...launched, attemptId, job: `ork-${attemptId}`, go: () => writeFileSync(flag, "") }
  }

  /** One that runs. */
  async running(more: Overrides = {}, by?: Executor): Promise<Waiting> {
    const task = this.waiting(more, by)
    await task.line("up")
    return task
  }

  /** Lets it end well while no watch tells of it. */
  async endsUnseen(task: Waiting): Promise<void> {
    this.cluster.watches.mute = true
    task.go()
    await soon(() => this.controllers.phaseOf(task.job) === "Succeeded")
    this.cluster.watches.mute = false
  }
}
