// What a program sees of jobs: the same on every database.

import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import { FatalError, RetryLater } from "../../executors/errors.ts"
import { task } from "../definitions.ts"
import { CancelledError, ConflictError, InvalidInputError, StoppedError, TaskFailedError, TimeoutError } from "../errors.ts"
import type { Work } from "../orkable.ts"
import type { testOrk as TestKit } from "../test.ts"

const Mail = z.object({ to: z.string(), tenant: z.string().default("none") })

const double = task("double", { input: z.object({ n: z.number() }) }, async ({ n }) => ({ twice: 2 * n }))

/** The tests, with a test kit on either database. */
export const jobTests = (testOrk: typeof TestKit): void => {
  describe("a task", () => {
    it("runs with the validated input, and its result has the type of the handler", async () => {
      const send = task("send", { input: Mail }, async ({ to, tenant }, { attempt, id }) => ({ to, tenant, attempt, id }))
      await using ork = await testOrk({ run: [send] })
      const job = await ork.enqueue(send, { to: "a@b.c" })
      expectTypeOf(job).toEqualTypeOf<Work<{ to: string; tenant: string; attempt: number; id: string }>>()
      await ork.advance("1s")
      expect(await job.result()).toEqual({ to: "a@b.c", tenant: "none", attempt: 1, id: job.id })
    })

    it("rejects an invalid input when it is enqueued, and names the path", async () => {
      await using ork = await testOrk({ run: [double] })
      const rejected = ork.enqueue(double, { n: "1" as unknown as number })
      await expect(rejected).rejects.toThrow(InvalidInputError)
      await expect(rejected).rejects.toMatchObject({ issues: [{ path: "n" }] })
      const jobs: Work<unknown>[] = []
      for await (const job of ork.list({ def: double })) jobs.push(job)
      expect(jobs).toEqual([])
    })

    it("is retried with its delays, and fails with the last error", async () => {
      const times: number[] = []
      const flaky = task("flaky", { retry: { attempts: 3, delay: "10s", maxDelay: "1m" } }, () => {
        times.push(ork.now().getTime())
        throw new Error(`try ${times.length}`)
      })
      await using ork = await testOrk({ run: [flaky] })
      const start = ork.now().getTime()
      const job = await ork.enqueue(flaky, null)
      await ork.advance("1h")
      expect(times.map((at) => at - start)).toEqual([0, 10_000, 30_000])
      await expect(job.result()).rejects.toThrow(TaskFailedError)
      await expect(job.result()).rejects.toThrow("try 3")
      expect(await job.refresh()).toMatchObject({ status: "failed", attempts: 3, error: "try 3" })
    })

    it("ends at once with a FatalError, and waits as long as RetryLater says", async () => {
      const fatal = task("fatal", {}, () => {
        throw new FatalError("no use")
      })
      let tries = 0
      const later = task("later", {}, () => {
        if (++tries === 1) throw new RetryLater("2h")
        return tries
      })
      await using ork = await testOrk({ run: [fatal, later] })
      const jobs = [await ork.enqueue(fatal, null), await ork.enqueue(later, null)] as const
      await ork.advance("1h")
      expect(await jobs[0].refresh()).toMatchObject({ status: "failed", attempts: 1 })
      expect(tries).toBe(1)
      await ork.advance("1h")
      expect(await jobs[1].result()).toBe(2)
    })

    it("with a key exists once, and can be replaced until it starts", async () => {
      await using ork = await testOrk({ run: [double] })
      const first = await ork.enqueue(double, { n: 1 }, { key: "k", delay: "1h" })
      const second = await ork.enqueue(double, { n: 2 }, { key: "k", delay: "1h" })
      expect([first.created, second.created, second.id === first.id, second.input]).toEqual([true, false, true, { n: 1 }])
      await expect(ork.enqueue(double, { n: 3 }, { key: "k", onConflict: "error" })).rejects.toThrow(ConflictError)
      await ork.enqueue(double, { n: 4 }, { key: "k", onConflict: "replace" })
      await ork.advance("2h")
      expect(await first.result()).toEqual({ twice: 8 })
    })

    it("starts after its delay, or at its time", async () => {
      await using ork = await testOrk({ run: [double], now: "2026-05-01T00:00:00Z" })
      const delayed = await ork.enqueue(double, { n: 1 }, { delay: "5m" })
      const timed = await ork.enqueue(double, { n: 2 }, { at: new Date("2026-05-01T01:00:00Z") })
      await ork.advance("299s")
      expect((await delayed.refresh()).status).toBe("ready")
      await ork.advance("1s")
      expect((await delayed.refresh()).status).toBe("completed")
      await ork.advance("54m")
      expect((await timed.refresh()).status).toBe("ready")
      await ork.advance("1m")
      expect((await timed.refresh()).status).toBe("completed")
    })

    it("can be cancelled, and a failed one can be retried", async () => {
      let broken = true
      const fragile = task("fragile", { retry: { attempts: 1 } }, () => {
        if (broken) throw new Error("broken")
        return "fine"
      })
      await using ork = await testOrk({ run: [fragile] })
      const cancelled = await ork.enqueue(fragile, null, { delay: "1h" })
      await cancelled.cancel()
      await expect(cancelled.result()).rejects.toThrow(CancelledError)
      await ork.enqueue(fragile, null)
      await ork.advance("1m")
      broken = false
      const failed: string[] = []
      for await (const job of ork.list({ def: fragile, status: ["failed"] })) {
        if (job.error === "cancelled") continue
        failed.push(job.id)
        await job.retry()
        await ork.advance("1m")
        expect(await job.result()).toBe("fine")
      }
      expect(failed).toHaveLength(1)
    })

    it("runs the jobs of one group one after the other with perGroup: 1, and those of another beside them", async () => {
      const order: string[] = []
      const work = task(
        "work",
        { input: Mail, group: ({ tenant }) => tenant, limit: { perGroup: 1 } },
        ({ tenant }) => void order.push(tenant),
      )
      await using ork = await testOrk({ run: [work] })
      for (let i = 0; i < 4; i++) await ork.enqueue(work, { to: "x", tenant: "big" }, { delay: "1s" })
      await ork.enqueue(work, { to: "x", tenant: "small" }, { delay: "1s" })
      await ork.advance("1m")
      expect(order).toHaveLength(5)
      expect(order.indexOf("small")).toBeLessThan(2)
    })

    it("starts no more jobs in a period than its rate allows", async () => {
      const times: number[] = []
      const limited = task("limited", { limit: { rate: [2, "1m"] } }, () => void times.push(ork.now().getTime()))
      await using ork = await testOrk({ run: [limited] })
      await ork.enqueueAll(limited, [1, 2, 3, 4, 5])
      await ork.advance("10s")
      expect(times).toHaveLength(2)
      await ork.advance("10m")
      expect(times).toHaveLength(5)
    })

    it("that did not start in time expires", async () => {
      const slow = task("slow", { expires: "1m" }, () => "late")
      await using ork = await testOrk({ run: [double] })
      const job = await ork.enqueue(slow, null)
      await ork.advance("2m")
      await expect(job.result()).rejects.toThrow("expired")
    })

    it("runs on a schedule", async () => {
      const times: string[] = []
      const digest = task("digest", { input: z.object({ to: z.string() }) }, ({ to }) => {
        times.push(`${to} ${ork.now().toISOString()}`)
      })
      await using ork = await testOrk({ run: [digest], now: "2026-03-01T00:00:00Z" })
      await ork.schedule("weekly", "0 8 * * 1", digest, { to: "team" }, { timezone: "Europe/Berlin" })
      await ork.advance("14d")
      expect(times).toEqual(["team 2026-03-02T07:00:00.000Z", "team 2026-03-09T07:00:00.000Z"])
      await ork.unschedule("weekly")
      await ork.advance("14d")
      expect(times).toHaveLength(2)
    })

    it("continues after a crash of its process", async () => {
      let runs = 0
      const long = task("long", {}, async (_, { signal }) => {
        runs++
        if (runs === 1) await new Promise((_resolve, reject) => signal.addEventListener("abort", reject))
        return runs
      })
      await using ork = await testOrk({ run: [long] })
      const job = await ork.enqueue(long, null)
      await ork.advance("1s")
      await ork.crash()
      await ork.advance("1m")
      expect(await job.result()).toBe(2)
    })

    it("reports a result that does not come in time, and an engine that was stopped", async () => {
      const ork = await testOrk({ run: [double] })
      const job = await ork.enqueue(double, { n: 1 }, { delay: "1h" })
      const waiting = expect(job.result({ timeout: "1m" })).rejects.toThrow(TimeoutError)
      await ork.advance("2m")
      await waiting
      await ork.stop()
      await expect(ork.enqueue(double, { n: 1 })).rejects.toThrow(/stopped/)
      expect(new StoppedError().message).toContain("Ork.open")
    })

    it("gives the same results when a test is repeated", async () => {
      const play = async (): Promise<string[]> => {
        const seen: string[] = []
        const shaky = task("shaky", { retry: { attempts: 5, delay: "1m", jitter: true } }, () => {
          seen.push(ork.now().toISOString())
          throw new Error("again")
        })
        await using ork = await testOrk({ run: [shaky] })
        await ork.enqueue(shaky, null)
        await ork.advance("1h")
        return seen
      }
      const first = await play()
      expect(first).toHaveLength(5)
      expect(await play()).toEqual(first)
    })
  })

  describe("a definition", () => {
    it("has no limit per group without a group", () => {
      expect(() => task("grouped", { limit: { perGroup: 1 } }, () => 1)).toThrow("limit.perGroup requires group")
    })
  })
}
