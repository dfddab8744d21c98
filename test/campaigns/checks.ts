// Compares what tasks wrote with what a client was told. Each function returns one sentence per violation.

import { setTimeout as delay } from "node:timers/promises"
import { mapInLanes } from "./campaign.ts"
import type { Client, ToldTask } from "./client.ts"
import type { Entry, Journal } from "./journal.ts"
import { isHook, TICK_MS, TICKS, type Workload } from "./workload.ts"

/** Time for all runs to end, once nothing disturbs them. */
const END_MS = 120_000

/** Requests at a time. */
const LANES = 8

/** Waits until the acknowledged and the scheduled runs have ended, and checks all of them. */
export const checkAll = async (client: Client, journal: Journal, workloads: readonly Workload[]): Promise<string[]> => {
  const violations = [...(await unended(client, [...client.acknowledged.values()]))]
  if (workloads.includes(TICKS)) violations.push(...(await unended(client, [...(await client.runs(TICKS.name)).keys()])))
  const told = await Promise.all(workloads.map(async (workload) => ({ workload, runs: await toldRuns(client, workload) })))
  const entries = journal.read()
  violations.push(...overlaps(entries), ...duplicates(entries), ...missedTicks(entries, TICK_MS))
  const ends = new Set(entries.filter(({ phase }) => phase === "end").map(({ attemptId }) => attemptId))
  const entriesOf = Map.groupBy(entries, ({ run }) => run)
  for (const { workload, runs } of told) {
    for (const run of runs) {
      violations.push(...falseSuccesses(run, ends), ...incompleteRun(workload, run, entriesOf.get(run.id) ?? []))
      const before = client.ended.get(run.id)
      if (before !== undefined && before !== run.status) {
        violations.push(`run ${run.id}: told as ${before}, and later as ${run.status}`)
      }
    }
  }
  return violations
}

interface ToldRun {
  id: string
  status: string
  tasks: ToldTask[]
}

/** Responses of servers about the runs of a workload, once their hooks have ended too. */
const toldRuns = async (client: Client, { name }: Workload): Promise<ToldRun[]> => {
  // A tick may have created a run after the others had ended.
  const ended = [...(await client.runs(name))].filter(([id]) => client.ended.has(id))
  return mapInLanes(ended, LANES, async ([id, status]) => ({ id, status, tasks: await client.settledTasks(id) }))
}

/** Waits for the end of runs. */
const unended = async (client: Client, runs: readonly string[]): Promise<string[]> => {
  const late = Symbol("late")
  const left = runs.filter((run) => !client.ended.has(run))
  const ended = Promise.all(left.map((run) => client.end(run)))
  if ((await Promise.race([ended, delay(END_MS, late, { ref: false })])) !== late) return []
  const open = runs.filter((run) => !client.ended.has(run))
  return open.map((run) => `run ${run} has not ended ${END_MS / 1000} s after the last fault`)
}

/** Attempts of a task run one after the other: once one has started, an earlier one writes nothing, and none runs twice. */
export const overlaps = (entries: readonly Entry[]): string[] => {
  const violations: string[] = []
  const latest = new Map<string, Entry>()
  const ended = new Set<string>()
  for (const entry of entries) {
    const id = `run ${entry.run}, task ${entry.task}`
    const previous = latest.get(id)
    if (previous !== undefined && entry.attempt < previous.attempt) {
      violations.push(`${id}: attempt ${entry.attempt} wrote "${entry.phase}" after attempt ${previous.attempt} had started`)
      continue
    }
    if (entry.phase === "start" && previous?.attempt === entry.attempt) {
      violations.push(`${id}: attempt ${entry.attempt} started twice`)
    }
    if (ended.has(entry.attemptId)) violations.push(`${id}: attempt ${entry.attempt} wrote "${entry.phase}" after its end`)
    if (entry.phase === "end") ended.add(entry.attemptId)
    latest.set(id, entry)
  }
  return violations
}

/** A key of a client, or a tick of a schedule, has one run. */
export const duplicates = (entries: readonly Entry[]): string[] => {
  const runs = new Map<string, string>()
  const violations = new Set<string>()
  for (const { key, run } of entries) {
    if (key === "-") continue
    const first = runs.get(key) ?? run
    if (first !== run) violations.add(`key ${key}: the runs ${first} and ${run} both ran tasks for it`)
    runs.set(key, first)
  }
  return [...violations]
}

/** Every tick between the first and the last one that ran has a run. */
export const missedTicks = (entries: readonly Entry[], everyMs: number): string[] => {
  const times = [...new Set(entries.filter(({ task }) => task === "tick").map(({ key }) => Date.parse(key)))].toSorted(
    (a, b) => a - b,
  )
  return times.slice(1).flatMap((time, i) => {
    const missed = Math.round((time - times[i]!) / everyMs) - 1
    return missed > 0 ? [`${missed} ticks after ${new Date(times[i]!).toISOString()} have no run`] : []
  })
}

/** Every success that the client was told is an attempt that ran to its end. */
export const falseSuccesses = ({ id: run, tasks }: ToldRun, ends: ReadonlySet<string>): string[] =>
  tasks.flatMap((task) => {
    const successes = task.attempts.filter(({ status }) => status === "success").map(({ id }) => id)
    const id = `run ${run}, task ${nameOf(task)}`
    const outcome = task.status === "success" && task.attempts.length > 0
    return [
      ...successes
        .filter((attempt) => !ends.has(attempt))
        .map((attempt) => `${id}: attempt ${attempt} succeeded, but never ended`),
      ...(outcome && successes.length !== 1 ? [`${id}: it succeeded by ${successes.length} attempts`] : []),
      ...(outcome && successes.length === 1 && task.output_object === null && task.output?.by !== successes[0]
        ? [`${id}: its output is ${JSON.stringify(task.output)}, and not that of attempt ${successes[0]}`]
        : []),
    ]
  })

/** A run that has ended succeeded, with every task and its hook, each of which read the successes upstream. */
export const incompleteRun = (
  { tasks: expected, reads }: Workload,
  { id: run, status, tasks }: ToldRun,
  own: readonly Entry[],
): string[] => {
  if (status !== "success") return [`run ${run} ended as ${status}`]
  const told = new Map(tasks.map((task) => [nameOf(task), task]))
  const successOf = (task: string): string | undefined =>
    told.get(task)?.attempts.find((attempt) => attempt.status === "success")?.id
  const violations = expected
    .filter((task) => told.get(task)?.status !== "success")
    .map((task) => `run ${run} succeeded, but its task ${task} is ${told.get(task)?.status ?? "missing"}`)
  for (const { task, saw } of own) {
    const upstream = reads[task]
    if (upstream !== undefined && saw !== successOf(upstream)) {
      violations.push(`run ${run}, task ${task}: it read the output of ${saw}, which is not the success of ${upstream}`)
    }
  }
  const hookStart = own.findIndex(({ task }) => isHook(task))
  const lastEnd = own.findLastIndex(({ task, phase }) => !isHook(task) && phase === "end")
  if (hookStart !== -1 && hookStart < lastEnd) violations.push(`run ${run}: its hook started before its tasks had ended`)
  return violations
}

const nameOf = ({ name, index }: ToldTask): string => (index === null ? name : `${name}[${index}]`)
