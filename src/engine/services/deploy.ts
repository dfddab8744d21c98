// Deploys a compiled workflow: stores its version and the next firing of each of its schedules.

import { currentActor } from "../../store/contract/audit-scope.ts"
import { iso } from "../../core/model/ports.ts"
import { nextFiring } from "../../core/time/schedule.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import type { Catalog } from "../../store/contract/catalog.ts"
import type { Store, StoredVersion } from "../../store/contract/store.ts"

/** Returns a key of a schedule that is the same on every server; seeds its jitter. */
export const scheduleKey = (workflow: string, position: number): string => `${workflow}/${position}`

/** Returns the next firing of each schedule after `now`; null: never again. */
export const nextFiringsOf = (workflow: CompiledWorkflow, now: number): (string | null)[] =>
  workflow.schedules.map((spec, position) => {
    const next = nextFiring(spec, scheduleKey(workflow.name, position), now)
    return next === null ? null : iso(next.at)
  })

export const deploy = async (
  store: Pick<Store, "putWorkflow"> & Pick<Catalog, "currentTime">,
  definition: { workflow: CompiledWorkflow; hash: string; source: string },
  options: { ifNew?: boolean } = {},
): Promise<StoredVersion> =>
  store.putWorkflow({
    compiled: definition.workflow,
    hash: definition.hash,
    source: definition.source,
    deploy: true,
    createdBy: currentActor(),
    nextAt: nextFiringsOf(definition.workflow, await store.currentTime()),
    ...options,
  })
