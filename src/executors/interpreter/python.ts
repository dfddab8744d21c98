// The Python of a task, and its place in the task's environment.

import type { Environment } from "../environment.ts"

export interface Python {
  /** Absolute path. */
  program: string
  /** Folder whose `python` and `python3` are the program. */
  bin: string
  /** Folder of the virtualenv that the program belongs to; null if it belongs to none. */
  virtualenv: string | null
}

/** Returns variables with which commands find the Python, as after the activation of a virtualenv. */
export const withPython = (env: Environment, python: Python | null): Environment => {
  if (python === null) return env
  const { bin, virtualenv } = python
  const path = [bin, ...(env["PATH"] ? [env["PATH"]] : [])].join(":")
  return { ...env, PATH: path, ...(virtualenv !== null && { VIRTUAL_ENV: virtualenv }) }
}
