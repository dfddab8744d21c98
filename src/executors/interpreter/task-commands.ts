// The contract by which Ork runs commands of its own on behalf of a task: as the user of the task, and confined like it, because packages
// run code when they are installed.

import type { Environment } from "../environment.ts"

export interface TaskCommand {
  argv: string[]
  env: Environment
  cwd: string
  /** File for what the command prints. */
  logPath: string
}

export interface TaskCommands {
  /** Variables of the server that tasks have. */
  server: Environment
  /** User of the task's processes; null for Ork's own. */
  user: { name: string; uid: number; gid: number } | null
  /** Runs a command, and kills it on abort. Resolves with why it failed, or null, after all of its processes have ended. */
  run(command: TaskCommand, signal: AbortSignal): Promise<string | null>
}
