// Worker profiles: named sets of fields that decide where a task runs; a task selects one by `worker`. They are set in ork.yaml (or as
// JSON in ORK_WORKER_PROFILES) of the process that compiles the definition: a server, or `ork run`. Fields of the task win.

import type { TaskDefinition } from "../model/definition.ts"
import { isObject } from "../values/json.ts"
import { mapSetting } from "./map-setting.ts"

/** Fields of a task that a profile may set: they concern where it runs, not what it does. */
const PROFILE_FIELDS = [
  "executor",
  "image",
  "job",
  "queue",
  "labels",
  "priority",
  "resources",
  "env",
  "run_as",
  "script_dir",
  "start_timeout",
  "docker",
  "kubernetes",
  "slurm",
  "cloudrun",
] as const satisfies readonly (keyof TaskDefinition)[]

export type WorkerProfile = Pick<TaskDefinition, (typeof PROFILE_FIELDS)[number]>
export type WorkerProfiles = { readonly [name: string]: WorkerProfile }

export const PROFILES_HINT = `a map of worker profiles with the fields ${PROFILE_FIELDS.join(", ")}`

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/

/** Parses the setting; null when it is not valid. definition/profile-problems.ts checks the values of the fields. */
export const parseWorkerProfiles = (value: unknown): WorkerProfiles | null => {
  const map = mapSetting(value)
  if (map === null) return null
  const known: readonly string[] = PROFILE_FIELDS
  const fits = ([name, profile]: [string, unknown]): boolean =>
    NAME.test(name) && isObject(profile) && Object.keys(profile).every((field) => known.includes(field))
  return Object.entries(map).every(fits) ? (map as WorkerProfiles) : null
}
