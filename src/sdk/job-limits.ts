// Groups and limits of the jobs of a task. The program and the client of a server give a job the same ones, so that all jobs of a task share them.

import { checkText } from "./checks.ts"
import type { AnyTask } from "./definitions.ts"

/** Returns the group of a job; null for a task without groups. */
export const groupOf = ({ name, group }: AnyTask, input: unknown): string | null => {
  if (group === null) return null
  const value: unknown = group(input as never)
  return checkText(typeof value === "number" ? String(value) : (value as string), `task ${name}: what group returned`)
}

/** Returns the limits of a job of this task. `group`: that of the job; null without one. */
export const jobLimitsOf = ({ name, limit }: AnyTask, group: string | null): { key: string; cap: number }[] => [
  ...(limit.concurrency === null ? [] : [{ key: `task:${name}`, cap: limit.concurrency }]),
  ...(limit.perGroup === null ? [] : [{ key: `task:${name}:${group}`, cap: limit.perGroup }]),
]
