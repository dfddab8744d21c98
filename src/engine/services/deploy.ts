// Deploys a compiled workflow: stores its version and the next firing of each of its schedules.

import { createHash } from "node:crypto"
import { currentActor } from "../../store/contract/audit-scope.ts"
import { iso } from "../../core/model/ports.ts"
import { type Firing, firstFiring, nextFiring } from "../../core/time/schedule.ts"
import type { CompiledWorkflow, ScheduleSpec } from "../../core/model/workflow.ts"
import type { Catalog } from "../../store/contract/catalog.ts"
import type { Store, StoredVersion } from "../../store/contract/store.ts"

/** Returns a key of a schedule that is the same on every server; seeds its jitter. */
export const scheduleKey = (workflow: string, position: number): string => `${workflow}/${position}`

/** Returns the next firing of each schedule after `now`; null: never again. */
export const nextFiringsOf = (workflow: CompiledWorkflow, now: number): (string | null)[] =>
  firingsOf(workflow, (spec, key) => nextFiring(spec, key, now))

const firingsOf = (
  { name, schedules }: CompiledWorkflow,
  find: (spec: ScheduleSpec, key: string) => Firing | null,
): (string | null)[] =>
  schedules.map((spec, position) => {
    const firing = find(spec, scheduleKey(name, position))
    return firing === null ? null : iso(firing.at)
  })

/** Returns a workflow that nobody wrote as a definition as it is deployed: it is its own source. */
export const withoutSource = (workflow: CompiledWorkflow): { workflow: CompiledWorkflow; hash: string; source: string } => {
  const source = JSON.stringify(workflow, null, 2)
  return { workflow, hash: createHash("sha256").update(source).digest("hex"), source }
}

export const deploy = async (
  store: Pick<Store, "putWorkflow"> & Pick<Catalog, "currentTime">,
  definition: { workflow: CompiledWorkflow; hash: string; source: string },
  options: { ifNew?: boolean } = {},
): Promise<StoredVersion> => {
  const { workflow, hash, source } = definition
  const now = await store.currentTime()
  return store.putWorkflow({
    compiled: workflow,
    hash,
    source,
    deploy: true,
    createdBy: currentActor(),
    nextAt: nextFiringsOf(workflow, now),
    firstAt: firingsOf(workflow, (spec, key) => firstFiring(spec, key, now)),
    ...options,
  })
}
