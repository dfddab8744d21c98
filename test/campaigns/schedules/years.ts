// Plays years of schedules with every overlap and catch-up mode, with the real engine and scheduler on SQLite in virtual time, while
// processes are killed and clocks are set. Compares runs and skipped ticks with the ticks of the oracle.

import type { ScheduleSpec } from "../../../src/core/model/workflow.ts"
import type { ServerStore } from "../../../src/store/contract/server-store.ts"
import { Rng } from "../../sim/rng.ts"
import type { Owed } from "./expectation.ts"
import type { Expression } from "./expressions.ts"
import { expectedTicks, zoneClock } from "./oracle.ts"
import { World } from "./world.ts"

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

const ZONE = "America/New_York"
const numbersTo = (last: number): Set<number> => new Set(Array.from({ length: last + 1 }, (_, i) => i))

/** 02:30 does not exist on one day of each year, and 01:30 occurs twice on another. */
const EXPRESSION: Expression = {
  text: "30 1,2,14 * * *",
  seconds: [0],
  minutes: [30],
  hours: [1, 2, 14],
  days: numbersTo(31),
  months: numbersTo(12),
  weekdays: numbersTo(6),
  eitherDay: false,
  hasFixedTimes: true,
}

interface Mode extends Pick<ScheduleSpec, "overlap" | "catchup"> {
  name: string
}

const MODES: readonly Mode[] = (["allow", "skip", "queue", "cancel"] as const).flatMap((overlap) =>
  (["none", "latest", "all"] as const).map((catchup) => ({ name: `${overlap}-${catchup}`, overlap, catchup })),
)

export interface YearsResult {
  ticks: number
  runs: number
  kills: number
  clockSteps: number
  violations: string[]
}

export interface YearsOptions {
  days: number
  seed: number
  folder: string
  /** Changes the store that processes see. */
  change?: (store: ServerStore) => ServerStore
}

export const playYears = async ({ days, seed, folder, change }: YearsOptions): Promise<YearsResult> => {
  const names = MODES.map(({ name }) => name)
  const world = await World.open({ seed, folder, names, ...(change !== undefined && { change }) })
  const startedAt = world.clock.now()
  await world.start()
  for (const { name, overlap, catchup } of MODES)
    await world.schedule(name, EXPRESSION.text, { timezone: ZONE, overlap, catchup })
  await suffer(world, days, new Rng("faults of schedules", seed))
  await world.pass(2 * DAY)
  world.kill()
  const endedAt = world.clock.now() + DAY
  const ticks = expectedTicks(EXPRESSION, zoneClock(ZONE, startedAt - 7 * DAY, endedAt + 7 * DAY), startedAt - DAY, endedAt)
  const result: YearsResult = { ticks: 0, runs: 0, kills: world.kills, clockSteps: world.clockSteps, violations: [] }
  for (const mode of MODES) await checkMode(world, mode, ticks, result)
  await world.close()
  return result
}

const suffer = async (world: World, days: number, rng: Rng): Promise<void> => {
  const endMs = days * DAY
  while (world.clock.elapsed < endMs) {
    await world.pass(rng.int(2 * HOUR, 4 * DAY))
    if (rng.chance(0.5)) {
      world.setClock(stepMs(rng))
      continue
    }
    world.kill()
    await world.pass(rng.chance(0.4) ? rng.int(1, MINUTE) : rng.int(1, 3 * DAY))
    if (rng.chance(0.2)) world.setClock(stepMs(rng))
    await world.start()
  }
}

/** A clock is set forward or back, most often by minutes. */
const stepMs = (rng: Rng): number => {
  const ms = rng.chance(0.6) ? rng.int(3000, 10 * MINUTE) : rng.int(MINUTE, 6 * HOUR)
  return rng.chance(0.5) ? ms : -ms
}

const checkMode = async (world: World, mode: Mode, ticks: readonly number[], result: YearsResult): Promise<void> => {
  const { name, overlap, catchup } = mode
  const runs = new Map<number, number>()
  for (const tick of await world.runTicks(name)) runs.set(tick, (runs.get(tick) ?? 0) + 1)
  const skipped = new Set(await world.skippedByOverlap(name))
  const violation = (text: string): void => void result.violations.push(`${name}: ${text}`)
  const known = new Set(ticks)
  for (const [tick, count] of runs) {
    if (!known.has(tick)) violation(`${at(tick)} is not a tick, but has a run`)
    if (count > 1) violation(`the tick ${at(tick)} has ${count} runs`)
  }
  for (const [tick, owed] of world.timeline.owed(ticks, catchup)) {
    result.ticks += 1
    const problem = problemOf(owed, runs.has(tick), skipped.has(tick), overlap)
    if (problem !== null) violation(`the tick ${at(tick)} ${problem}`)
  }
  if (overlap === "skip" || overlap === "queue") for (const text of overlaps(world, name)) violation(text)
  result.runs += runs.size
}

const at = (tick: number): string => new Date(tick).toISOString()

const problemOf = (owed: Owed, hasRun: boolean, isSkipped: boolean, overlap: Mode["overlap"]): string | null => {
  if (hasRun && isSkipped) return "has a run, and is recorded as skipped"
  if (isSkipped && (overlap === "allow" || overlap === "queue")) return "is skipped by its overlap, which skips none"
  if (owed === "due" && !hasRun && !isSkipped) return "was due, but has no run"
  if (owed === "missed" && hasRun) return "was missed, but has a run"
  return null
}

/** Returns the times at which two runs of a schedule worked at once. */
const overlaps = ({ activities }: World, name: string): string[] => {
  const own = activities.filter(({ task }) => task === name)
  return own.flatMap((activity, i) => {
    const next = own[i + 1]
    return next !== undefined && (activity.to ?? Infinity) > next.from
      ? [`two runs work at once, ${next.from} ms after the start`]
      : []
  })
}
