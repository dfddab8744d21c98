import { expect, test } from "vitest"
import type { AttemptResult } from "../../core/model/change.ts"
import { MemoryObjectStore } from "../../objects/testing/memory.ts"
import { assignment } from "../conformance/fixture.ts"
import { ManualClock } from "../conformance/manual-clock.ts"
import type { StopReason } from "../executor.ts"
import { NO_OUTPUT } from "../output.ts"
import { type Observation, type Outcome, RemoteAttempt, type RemoteLaunch } from "./remote-attempt.ts"

const SUCCESS: Outcome = { state: "success", error: null, exitCode: 0 }

/** An attempt on a cluster that does what the test sets. */
class TestAttempt extends RemoteAttempt<string, Outcome> {
  readonly calls: string[] = []
  submission: () => Promise<string | null> = () => Promise.resolve("job-1")
  observation: Observation<Outcome> | Promise<Observation<Outcome>> | Error = { recheckMs: null }
  acceptStop: () => Promise<void> = () => Promise.resolve()

  constructor(launch: RemoteLaunch) {
    super(launch)
    this.externalId = "job-1"
  }

  /** Changes what the cluster shows. */
  show(observation: TestAttempt["observation"], started = true): void {
    if (started) this.markStarted()
    else this.waitingFor = "no free node"
    this.observation = observation
    this.changed()
  }

  protected submit(): Promise<string | null> {
    return this.submission()
  }

  protected submitFailure(error: unknown): Pick<AttemptResult, "error" | "retryable"> {
    return { error: `could not submit: ${this.describeError(error)}`, retryable: false }
  }

  protected observe(): Observation<Outcome> | Promise<Observation<Outcome>> {
    if (this.observation instanceof Error) throw this.observation
    return this.observation
  }

  protected outcome(_job: string, end: Outcome): Outcome {
    return end
  }

  protected async finish(_job: string, end: Outcome | null): Promise<AttemptResult> {
    if (end === null || this.stopRequested) return this.stopped(end?.exitCode)
    return this.resultOf(end, NO_OUTPUT)
  }

  protected async requestStop(job: string): Promise<void> {
    this.calls.push(`stop ${job}`)
    await this.acceptStop()
  }

  protected override async kill(job: string): Promise<void> {
    this.calls.push(`kill ${job}`)
  }

  protected async abandon(job: string): Promise<void> {
    this.calls.push(`abandon ${job}`)
  }

  protected describeError(error: unknown): string {
    return (error as Error).message
  }

  protected async close(job: string | null): Promise<void> {
    this.calls.push(`close ${job}`)
  }
}

const setup = (options: { exec?: boolean; prepare?(attempt: TestAttempt): void } = {}) => {
  const clock = new ManualClock()
  const stop = new AbortController()
  const started: object[] = []
  const context = { signal: stop.signal, started: (info: object) => void started.push(info), progress: () => {} }
  const work = assignment("/", null, { graceMs: 10_000 })
  const launch = { assignment: work, context, objects: new MemoryObjectStore(), clock, exec: options.exec ?? false }
  const attempt = new TestAttempt(launch)
  options.prepare?.(attempt)
  let result: AttemptResult | null = null
  void attempt.run().then((end) => (result = end))
  return { attempt, clock, started, result: () => result, stop: (reason: StopReason) => stop.abort(reason) }
}

test("work is submitted, reported as started once, and finished when the cluster shows its end", async () => {
  const { attempt, clock, started, result } = setup()
  await clock.pass(0)
  attempt.show({ recheckMs: null })
  attempt.show({ end: SUCCESS })
  await clock.pass(0)
  expect(started).toEqual([{ at: clock.now(), externalId: "job-1" }])
  expect(result()).toMatchObject({ state: "success", exitCode: 0, externalId: "job-1", output: { inline: null } })
  expect(attempt.calls).toEqual(["close job-1"])
  expect(clock.waiting).toBe(0)
})

test("a failed submission is a result, and has no handle to close", async () => {
  const prepare = (attempt: TestAttempt): void => void (attempt.submission = () => Promise.reject(new Error("no route")))
  const { attempt, clock, result } = setup({ prepare })
  await clock.pass(0)
  expect(result()).toMatchObject({ state: "failed", error: "could not submit: no route", retryable: false })
  expect(attempt.calls).toEqual(["close null"])
})

test.each(["shutdown", "lost"] as const)("%s hands the work over without touching it", async (reason) => {
  const { attempt, clock, result, stop } = setup()
  await clock.pass(0)
  stop(reason)
  await clock.pass(0)
  expect(result()).toMatchObject({ state: "lost" })
  expect(attempt.calls).toEqual(["close job-1"])
})

test("work that is handed over while the cluster fails is lost, not failed: it may still run", async () => {
  const { attempt, clock, result, stop } = setup()
  await clock.pass(0)
  const observation = Promise.withResolvers<Observation<Outcome>>()
  attempt.show(observation.promise)
  await clock.pass(0)
  stop("lost")
  observation.reject(new Error("no route"))
  await clock.pass(0)
  expect(result()).toMatchObject({ state: "lost" })
  expect(attempt.calls).toEqual(["close job-1"])
})

test("a stop is requested, followed by a kill after the grace period, and given up a minute later", async () => {
  const { attempt, clock, result, stop } = setup()
  await clock.pass(0)
  attempt.show({ recheckMs: null }, false)
  stop("timeout")
  await clock.pass(9999)
  expect(attempt.calls).toEqual(["stop job-1"])
  await clock.pass(1)
  expect(attempt.calls).toEqual(["stop job-1", "kill job-1"])
  await clock.pass(59_999)
  expect(result()).toBeNull()
  await clock.pass(1)
  expect(result()).toMatchObject({ state: "timeout", startedAt: null, waitedFor: "no free node" })
})

test("the grace period begins when the cluster has accepted the stop, however long that takes", async () => {
  const accepted = Promise.withResolvers<void>()
  const { attempt, clock, result, stop } = setup({ prepare: (one) => void (one.acceptStop = () => accepted.promise) })
  await clock.pass(0)
  attempt.show({ recheckMs: null })
  stop("cancel")
  await clock.pass(3_600_000)
  expect([result(), attempt.calls]).toEqual([null, ["stop job-1"]])
  accepted.resolve()
  await clock.pass(0)
  await clock.pass(10_000)
  expect(attempt.calls).toEqual(["stop job-1", "kill job-1"])
  await clock.pass(60_000)
  expect(result()).toMatchObject({ state: "cancelled" })
})

test("work that can no longer be observed is abandoned", async () => {
  const { attempt, clock, result } = setup()
  await clock.pass(0)
  attempt.show(new Error("forbidden"))
  await clock.pass(0)
  expect(result()).toMatchObject({ state: "failed", error: "could not be followed: forbidden" })
  expect(attempt.calls).toEqual(["abandon job-1", "close job-1"])
})

test("a container that succeeds without a result of ork exec has failed", async () => {
  const { attempt, clock, result } = setup({ exec: true })
  await clock.pass(0)
  attempt.show({ end: SUCCESS })
  await clock.pass(0)
  const error = expect.stringContaining("its container ended without writing a result") as string
  expect(result()).toMatchObject({ state: "failed", error, exitCode: 0 })
})
