// usage: node round.ts DRIVER WORKLOAD JOBS, with the services and the variant as JSON in ORK_BENCH_ROUND
// Runs one workload of one product in a fresh process, and prints its figures as one JSON line.

import { readFileSync } from "node:fs"
import { CHAIN_STEPS, DIAMONDS, type Driver, type DriverModule, FAN_OUT, FUNCTION_STEPS, type RoundOptions } from "./driver.ts"
import type { Workload } from "./products.ts"

const [driverFile, workload, jobsText] = process.argv.slice(2) as [string, Workload, string]
const jobs = Number(jobsText)
const given = JSON.parse(process.env["ORK_BENCH_ROUND"]!) as Omit<RoundOptions, "workload" | "functionSteps">

const SINGLE_JOBS = 200
const FUNCTIONS = 300
const IN_FLIGHT = 500
const NAP_MS = 3000
/** Jobs whose cost is measured in a queue of a million, and those that run before them. */
const MEASURED = 100_000
const WARM_UP = 20_000
const MILLION = 1_000_000

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const timed = async (call: () => Promise<void>): Promise<number> => {
  const from = performance.now()
  await call()
  return performance.now() - from
}

const perSecond = (count: number, ms: number): number => Math.round((count / ms) * 1000)

const PROCESSES = [1, 2, 4, 8]

const quantile = (values: readonly number[], q: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * q))]!

/** Resident memory of this process in MB. */
const memoryMb = (): number => {
  globalThis.gc?.()
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))![1]) / 1024)
}

const runJobs = async (driver: Driver): Promise<{ submit: number; total: number }> => {
  if (driver.submitAndDrain !== undefined) {
    const total = await timed(() => driver.submitAndDrain!(jobs))
    return { submit: total, total }
  }
  const submit = await timed(() => driver.submit!(jobs))
  return { submit, total: submit + (await timed(() => driver.drain!(jobs))) }
}

/** Starts the worker on queued jobs, and returns the microseconds that one of them takes, after the first ones. */
const costPerJob = async (driver: Driver, untilRan: (count: number) => Promise<void>): Promise<number> => {
  const before = driver.ran!()
  await driver.start!()
  await untilRan(before + WARM_UP)
  const ms = await timed(() => untilRan(before + WARM_UP + MEASURED))
  return (ms * 1000) / MEASURED
}

/** Cost of a job with few and with a million queued jobs, and after a million finished ones. */
const costsOfHistory = async (driver: Driver): Promise<Record<string, number>> => {
  const untilRan = async (count: number): Promise<void> => {
    while (driver.ran!() < count) await pause(5)
  }
  const run = async (count: number): Promise<number> => {
    await driver.submit!(count)
    const cost = await costPerJob(driver, untilRan)
    await driver.drain!(driver.ran!())
    return cost
  }
  const few = WARM_UP + MEASURED
  const us_per_job = await run(few)
  await driver.stop!()
  await driver.submit!(MILLION)
  const us_per_job_queued = await costPerJob(driver, untilRan)
  await driver.drain!(few + MILLION)
  const after_million_mb = memoryMb()
  await driver.stop!()
  return { us_per_job, us_per_job_queued, after_million_mb, us_per_job_finished: await run(few) }
}

const WORKLOADS: { [Name in Workload]: (driver: Driver) => Promise<Record<string, number>> } = {
  async jobs(driver) {
    const { submit, total } = await runJobs(driver)
    return { submitted_per_s: perSecond(jobs, submit), jobs_per_s: perSecond(jobs, total) }
  },

  async latency(driver) {
    await driver.start?.()
    for (let i = 0; i < 20; i++) await driver.one!()
    const times: number[] = []
    for (let i = 0; i < SINGLE_JOBS; i++) {
      times.push(await timed(() => driver.one!()))
      await pause((i * 7) % 20)
    }
    return { p50_ms: quantile(times, 0.5), p99_ms: quantile(times, 0.99) }
  },

  async graphs(driver) {
    await driver.start?.()
    await driver.diamonds!(10)
    const chain = await timed(() => driver.chain!(CHAIN_STEPS))
    const fanOut = await timed(() => driver.fanOut!(FAN_OUT))
    const diamonds = await timed(() => driver.diamonds!(DIAMONDS))
    return { chain_ms_per_step: chain / CHAIN_STEPS, fan_out_ms: fanOut, diamonds_per_s: perSecond(DIAMONDS, diamonds) }
  },

  async functions(driver) {
    await driver.start?.()
    await driver.functions!(20)
    return { functions_per_s: perSecond(FUNCTIONS, await timed(() => driver.functions!(FUNCTIONS))) }
  },

  async memory(driver) {
    await driver.start?.()
    await pause(1000)
    const idle_mb = memoryMb()
    await runJobs(driver)
    const after_jobs_mb = memoryMb()
    const running = driver.inFlight!(IN_FLIGHT, NAP_MS)
    await pause(NAP_MS / 2)
    const in_flight_mb = memoryMb()
    await running
    return { idle_mb, after_jobs_mb, in_flight_mb }
  },

  async processes(driver) {
    const figures: Record<string, number> = {}
    for (const count of PROCESSES)
      figures[`jobs_per_s_${count}`] = perSecond(MEASURED, await driver.processes!(count, MEASURED))
    return figures
  },

  async million(driver) {
    if (driver.stop !== undefined) return costsOfHistory(driver)
    await driver.submit!(MILLION)
    await driver.drain!(MILLION)
    return { after_million_mb: memoryMb() }
  },
}

const { open } = (await import(`./drivers/${driverFile}`)) as DriverModule
const driver = await open({ ...given, workload, functionSteps: FUNCTION_STEPS })
const figures = await WORKLOADS[workload](driver)
console.log(JSON.stringify(figures))
await Promise.race([driver.close(), pause(5000)])
process.exit(0)
