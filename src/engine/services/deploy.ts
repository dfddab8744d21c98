// Puts a compiled workflow in place: its version, and when each of its schedules fires next.

import { type Clock, iso } from "../../core/model/ports.ts"
import { nextFiring } from "../../core/time/schedule.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { Store, StoredVersion } from "../../store/contract/store.ts"

/** Tells the schedules of all workflows apart, for jitter; the same on every server. */
export const scheduleKey = (workflow: string, position: number): string => `${workflow}/${position}`

/** The next firing of each schedule from now on. */
export const nextFiringsOf = (workflow: CompiledWorkflow, now: number): (string | null)[] =>
  workflow.schedules.map((spec, position) => {
    const next = nextFiring(spec, scheduleKey(workflow.name, position), now)
    return next === null ? null : iso(next.at)
  })

export const deploy = (
  { store, clock }: { store: Pick<Store, "putWorkflow">; clock: Clock },
  parsed: { workflow: CompiledWorkflow; hash: string; source: string },
  options: { ifNew?: boolean } = {},
): Promise<StoredVersion> =>
  store.putWorkflow({
    compiled: parsed.workflow,
    hash: parsed.hash,
    source: parsed.source,
    deploy: true,
    nextAt: nextFiringsOf(parsed.workflow, clock.now()),
    ...options,
  })
