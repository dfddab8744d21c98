// The interface of a product in the benchmark. Each driver uses the product as its documentation recommends for throughput, with
// handlers that do nothing, in the process of the benchmark.

import type { Variant, Workload } from "./products.ts"

export interface Driver {
  /** Submits no-op jobs, in bulk where the product can. */
  submit?(count: number): Promise<void>
  /** Starts the worker, and resolves when the product's store shows this many jobs as completed. */
  drain?(count: number): Promise<void>
  /** Submits no-op jobs of a product that starts them at once, and resolves when all have completed. */
  submitAndDrain?(count: number): Promise<void>
  /** Starts the worker for the methods below. */
  start?(): Promise<void>
  /** Runs one job, from its submission until its completion is visible. */
  one?(): Promise<void>
  /** Runs tasks one after the other, each of which depends on the one before it. */
  chain?(steps: number): Promise<void>
  /** Runs one task, then this many that depend on it, then one that depends on all of them. */
  fanOut?(width: number): Promise<void>
  /** Runs this many graphs of four tasks at once. */
  diamonds?(count: number): Promise<void>
  /** Runs this many durable functions of ten steps at once. */
  functions?(count: number): Promise<void>
  /** Runs this many jobs at once, each of which takes `ms`. */
  inFlight?(count: number, ms: number): Promise<void>
  /** Submits no-op jobs to this many processes that are warm, and returns how long it took until all had completed, in milliseconds. */
  processes?(processes: number, jobs: number): Promise<number>
  /** Returns how often the handler of no-op jobs has run. */
  ran?(): number
  /** Stops the worker; `drain` starts it again. */
  stop?(): Promise<void>
  close(): Promise<void>
}

/** Services that a round may use. */
export interface Services {
  /** Address of an empty database on a durable Postgres. */
  postgres: string
  redis: { host: string; port: number }
  /** An empty folder. */
  folder: string
}

export interface RoundOptions extends Services {
  workload: Workload
  variant: Variant
  functionSteps: number
}

export interface DriverModule {
  open(options: RoundOptions): Promise<Driver>
}

/** Tasks and steps of the workloads. */
export const CHAIN_STEPS = 100
export const FAN_OUT = 1000
export const DIAMONDS = 100
export const FUNCTION_STEPS = 10
