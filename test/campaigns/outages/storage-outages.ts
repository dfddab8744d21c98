// A server whose disk or object store fails: it says so, accepts nothing that it cannot keep, reports no success that did not happen, and
// continues by itself.

import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import type { OutageOutcome } from "./postgres-outages.ts"
import { ProblemBanner } from "./problem-banner.ts"
import { type Site, STORAGE_FAULTS, type StorageFault } from "./storage-faults.ts"
import { withFolder } from "../campaign.ts"
import { checkAll } from "../checks.ts"
import type { Client } from "../client.ts"
import { Journal } from "../journal.ts"
import { Servers } from "../servers.ts"
import { BULKY } from "../workload.ts"

const IN_FLIGHT = 2
const NOTICE_MS = 15_000
const RESUME_MS = 30_000
const HOLD_MS = 5000

/** `only`: part of the name of the faults to try. */
export const disturbStorage = async (only = ""): Promise<OutageOutcome> => {
  const violations: string[] = []
  const chosen = STORAGE_FAULTS.filter(({ name }) => name.includes(only))
  for (const fault of chosen) {
    const found = await withFolder((folder) => survive(fault, folder))
    violations.push(...found.map((violation) => `${fault.name}: ${violation}`))
  }
  return { faults: chosen.length, violations }
}

const survive = async (fault: StorageFault, folder: string): Promise<string[]> => {
  const site = await fault.prepare(folder)
  const { env, launch } = site
  const group = await Servers.start({ folder, env, servers: 1, ...(launch !== undefined && { launch }) })
  try {
    return await breakAndRepair(fault, site, group, new Journal(join(folder, "journal")))
  } finally {
    await group.stop()
    await site.stop()
  }
}

const breakAndRepair = async (
  { name, noticed, mayFail = false }: StorageFault,
  site: Site,
  group: Servers,
  journal: Journal,
): Promise<string[]> => {
  const { client, urls } = group
  const violations: string[] = []
  await using banner = await ProblemBanner.open(urls[0]!, group.key)
  await client.deploy(BULKY.definition(journal))
  let wanted = true
  const load = client.load(BULKY.name, IN_FLIGHT, () => wanted)
  await holds(() => client.ended.size > 2, RESUME_MS)
  await site.break()
  const ready = async (): Promise<boolean> =>
    (await fetch(`${urls[0]!}/ready`, { signal: AbortSignal.timeout(NOTICE_MS) })).status === 200
  if (noticed && !(await holds(async () => !(await ready()), NOTICE_MS))) violations.push("/ready does not say so")
  if (noticed && !(await holds(() => isExplained(client), NOTICE_MS))) violations.push("explanations of runs do not say so")
  if (noticed && !(await banner.appears(2 * NOTICE_MS))) violations.push("the web UI does not say so")
  await delay(HOLD_MS)
  site.repair()
  const before = client.ended.size
  if (!(await holds(ready, RESUME_MS))) violations.push(`/ready is not 200 ${RESUME_MS / 1000} s after the repair`)
  if (!(await banner.disappears(RESUME_MS))) violations.push("the web UI still reports a problem after the repair")
  if (!(await holds(() => client.ended.size > before, RESUME_MS))) violations.push("no run ended after the repair")
  wanted = false
  await load
  const found = await checkAll(client, journal, [BULKY])
  violations.push(...found.filter((violation) => !(mayFail && violation.endsWith("ended as failed"))), ...group.ended)
  console.log(`${name}: ${client.acknowledged.size} runs, ${violations.length} violations`)
  return violations
}

/** Whether the explanation of a run that has not ended names the fault. A server that rejects new runs may have none. */
const isExplained = async (client: Client): Promise<boolean> => {
  const open = [...client.acknowledged.values()].find((run) => !client.ended.has(run))
  return open === undefined || /disk|object store/.test((await client.ask("GET", `/runs/${open}/explain`)).text)
}

/** Polls until a condition holds; false after `ms`. */
const holds = async (condition: () => boolean | Promise<boolean>, ms: number): Promise<boolean> => {
  for (const until = performance.now() + ms; performance.now() < until; await delay(100)) if (await condition()) return true
  return false
}
