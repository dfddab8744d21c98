// Worker profiles: where tasks run, under a name that they say as `worker`. Set in ork.yaml (or as JSON in ORK_WORKER_PROFILES) of
// whoever compiles the definition: a server, or `ork run`. The compiler puts a profile's fields below the task's own.

import type { TaskDefinition } from "../model/definition.ts"
import { isObject } from "../model/json.ts"

/** What belongs to the place rather than to the work. */
export const PROFILE_FIELDS = [
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

export const PROFILES_HINT = `a map of worker profiles, each with some of ${PROFILE_FIELDS.join(", ")}`

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/

/** null: not understood. The fields themselves are judged as those of tasks are (definition/worker-profiles.ts). */
export const parseWorkerProfiles = (value: unknown): WorkerProfiles | null => {
  const given = typeof value === "string" ? parseJson(value) : value
  if (!isObject(given)) return null
  const known: readonly string[] = PROFILE_FIELDS
  const fits = ([name, profile]: [string, unknown]): boolean =>
    NAME.test(name) && isObject(profile) && Object.keys(profile).every((field) => known.includes(field))
  return Object.entries(given).every(fits) ? (given as WorkerProfiles) : null
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return null
  }
}
