// The faults of a simulated run, drawn from its seed. A robust workflow survives each of them: they hit different tasks, and pass.

import type { Random } from "../../core/model/ports.ts"

/** A fault of the first attempt of a task or instance, or of the whole run. Times are milliseconds after the start of the run. */
export type Fault =
  /** The attempt fails. */
  | { kind: "failure"; key: string }
  /** Every attempt fails until this time has passed since the first one began. */
  | { kind: "outage"; key: string; ms: number }
  /** The attempt takes longer: this many times the usual time, if that is known. */
  | { kind: "slowness"; key: string; factor: number }
  /** The worker is lost, during the work or after it and before the result is recorded. */
  | { kind: "lost_worker"; key: string; afterWork: boolean }
  /** Nobody answers the approval, or what a task waits for does not happen. */
  | { kind: "silence"; key: string }
  /** All processes of Ork are killed and start again. */
  | { kind: "restart"; atMs: number }
  /** A user cancels the run. */
  | { kind: "cancel"; atMs: number }

export const FAULT_KINDS = [
  "failure",
  "outage",
  "slowness",
  "lost_worker",
  "silence",
  "restart",
  "cancel",
] as const satisfies Fault["kind"][]

/** A task or instance that faults can hit. */
export interface Target {
  key: string
  kind: "task" | "wait"
  /** A worker runs it, and can be lost. */
  onWorker: boolean
}

export const MAX_SLOWNESS = 4
const MAX_OUTAGE_MS = 120_000
const MIN_OUTAGE_MS = 5000

/** Returns the faults of a run, most often one. `spanMs`: time that the run takes without faults. */
export const planFaults = (random: Random, targets: readonly Target[], spanMs: number): Fault[] => {
  const left = [...targets]
  const faults: Fault[] = []
  for (let count = faultCount(random.next()); count > 0; count--) {
    const fault = timedFault(random, spanMs) ?? taskFault(random, left)
    if (fault !== null && !faults.some(({ kind }) => kind === fault.kind && "atMs" in fault)) faults.push(fault)
  }
  return faults
}

const faultCount = (roll: number): number => (roll < 0.05 ? 0 : roll < 0.65 ? 1 : roll < 0.9 ? 2 : 3)

const timedFault = (random: Random, spanMs: number): Fault | null => {
  const roll = random.next()
  if (roll >= 0.2) return null
  return { kind: roll < 0.12 ? "restart" : "cancel", atMs: Math.floor(random.next() * spanMs) }
}

/** Returns a fault of one of the targets, and removes it from them; null: none is left. */
const taskFault = (random: Random, left: Target[]): Fault | null => {
  const [target] = left.splice(Math.floor(random.next() * left.length), 1)
  if (target === undefined) return null
  const { key } = target
  const [roll, size] = [random.next(), random.next()]
  if (target.kind === "wait") return { kind: "silence", key }
  if (roll < 0.3) return { kind: "failure", key }
  if (roll < 0.45) return { kind: "outage", key, ms: Math.floor(MIN_OUTAGE_MS + size * (MAX_OUTAGE_MS - MIN_OUTAGE_MS)) }
  if (roll < 0.65 || !target.onWorker) return { kind: "slowness", key, factor: 1 + size * (MAX_SLOWNESS - 1) }
  return { kind: "lost_worker", key, afterWork: size < 0.6 }
}
