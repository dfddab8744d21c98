// Builds the environment of a task: four variables of the server, the task's own, and the ORK_* variables. Nothing else is
// inherited, so that a task cannot read the server's secrets.

import { resolve } from "node:path"
import type { TaskVariable } from "../../core/model/task-variables.ts"
import { type Environment, orkVariables, type TaskPaths } from "../environment.ts"
import type { Assignment } from "../executor.ts"
import { type Python, withPython } from "../interpreter/python.ts"

const ALLOWED = ["PATH", "HOME", "LANG", "TZ"] as const

export const OWNER_VARIABLE: TaskVariable = "ORK_OWNER"

export const serverEnvironment = (env: NodeJS.ProcessEnv): Environment =>
  Object.fromEntries(ALLOWED.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]])))

export interface OwnedTaskPaths extends TaskPaths {
  owner: string
  /** The Python that the task selects; null for `python3` in PATH. */
  python: Python | null
}

export const taskEnvironment = (server: Environment, assignment: Assignment, paths: OwnedTaskPaths): Environment => {
  const env = withPython({ ...server, ...assignment.env }, paths.python)
  const { scriptDir } = assignment.node
  if (scriptDir !== undefined) {
    env["PATH"] = [resolve(assignment.workingDir, scriptDir), ...(env["PATH"] ? [env["PATH"]] : [])].join(":")
  }
  Object.assign(env, orkVariables(assignment, paths))
  env[OWNER_VARIABLE] = paths.owner
  return env
}
