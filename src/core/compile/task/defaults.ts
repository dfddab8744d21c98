// Merges a task with its worker profile and with `defaults` of the workflow. Fields of the task win.

import type { TaskDefinition } from "../../model/definition.ts"
import type { WorkerProfiles } from "../../settings/worker-profiles.ts"
import { GROUP_DEFAULTS } from "./executors.ts"

/**
 * Adds the inherited fields to a task. Between profile and `defaults`, the one that is nearer to the task wins: a profile that the task
 * itself names, or `defaults`.
 */
export const mergeDefaults = (
  own: TaskDefinition,
  defaults: Partial<TaskDefinition>,
  profiles: WorkerProfiles | undefined,
): TaskDefinition => {
  const profile = profileOf(profiles, own.worker ?? defaults.worker)
  const inherited = own.worker === undefined ? mergeFields(defaults, profile) : mergeFields(profile, defaults)
  return own.tasks === undefined ? mergeTask(own, inherited) : mergeGroup(own, inherited)
}

const profileOf = (profiles: WorkerProfiles | undefined, name: string | undefined): Partial<TaskDefinition> =>
  name !== undefined && profiles !== undefined && Object.hasOwn(profiles, name) ? profiles[name]! : {}

const mergeTask = (own: TaskDefinition, inherited: Partial<TaskDefinition>): TaskDefinition => {
  const merged = mergeFields(own, inherited)
  // `retries` of the task wins over an inherited `retry.max_attempts`.
  if (own.retries !== undefined && own.retry?.max_attempts === undefined && merged.retry?.max_attempts !== undefined) {
    const { max_attempts: _, ...rest } = merged.retry
    merged.retry = rest
  }
  return merged
}

/** Adds to a group the fields that suit groups; the others are meant for its tasks, and so is its `env`. */
const mergeGroup = (own: TaskDefinition, inherited: Partial<TaskDefinition>): TaskDefinition => {
  const suitable = Object.fromEntries(Object.entries(inherited).filter(([field]) => GROUP_DEFAULTS.has(field)))
  const { env: _, ...group } = mergeFields(own, suitable)
  return group
}

/** Fields that are maps: they are merged name by name. */
const MAP_FIELDS = ["env", "retry", "resources", "http", "docker", "kubernetes", "slurm", "cloudrun"] as const

const mergeFields = <T extends Partial<TaskDefinition>>(own: T, base: Partial<TaskDefinition>): T => {
  const merged = { ...base, ...own }
  for (const field of MAP_FIELDS) {
    if (base[field] !== undefined && own[field] !== undefined) {
      Object.assign(merged, { [field]: { ...base[field], ...own[field] } })
    }
  }
  return merged
}
