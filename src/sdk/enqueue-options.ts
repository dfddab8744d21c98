// Checks the options of `enqueue`, for the engine in this process and the client of a server alike.

import { checkDate, checkOneOf, checkPriority, checkText } from "./checks.ts"
import { optionalMs } from "./duration.ts"
import { ConflictError } from "./errors.ts"
import { checkNames, ENQUEUE } from "./option-names.ts"
import type { EnqueueOptions } from "./orkable.ts"

const ON_CONFLICT = ["existing", "replace", "error"] as const

/** `known`: names of the options that the caller reads. */
export const checkEnqueueOptions = (options: EnqueueOptions, known = ENQUEUE): void => {
  checkNames(options, known, "enqueue")
  const { key, onConflict, delay, at, priority } = options
  if (key !== undefined) checkText(key, "key")
  if (onConflict !== undefined) checkOneOf(onConflict, ON_CONFLICT, "onConflict")
  if (priority !== undefined) checkPriority(priority, "priority")
  optionalMs(delay, "delay")
  if (at === undefined) return
  checkDate(at, "at")
  if (delay !== undefined) throw new TypeError("delay and at are given: give one of them")
}

/** Checks the options of many jobs. */
export const checkEnqueueAllOptions = (options: EnqueueOptions, known = ENQUEUE): void => {
  checkEnqueueOptions(options, known)
  if (options.key !== undefined) throw new TypeError("enqueueAll takes no key, which belongs to one job: use enqueue")
}

/** Checks the options of a run, which are fewer than those of a job. `what`: the definition, such as `workflow order`. */
export const checkRunOptions = (options: EnqueueOptions, what: string): void => {
  checkEnqueueOptions(options)
  if (options.delay !== undefined || options.at !== undefined)
    throw new TypeError(`${what} cannot be delayed: begin it with a sleep`)
  if (options.onConflict === "replace")
    throw new TypeError(`${what} cannot be replaced: cancel the run that has the key, and start another with another key`)
}

/** Throws a ConflictError for a run that was to be new. */
export const checkIsNew = (
  { id, created }: { id: string; created: boolean },
  { onConflict }: EnqueueOptions,
  name: string,
): void => {
  if (created || onConflict !== "error") return
  throw new ConflictError(`no run of ${name} was created: the key is taken by run ${id}`)
}
