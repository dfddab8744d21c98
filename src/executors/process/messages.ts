// Messages about processes that failed or could not be started.

import { ROOT_VIOLATION } from "../../core/rules/access/policy.ts"
import { formatBytes } from "../../core/values/quantities.ts"
import { errnoName, signalName } from "../messages.ts"
import type { Exited, Failed } from "./protocol.ts"

export interface CommandInfo {
  argv: string[]
  cwd: string
  runAs: string
  /** User of tasks without `run_as`; "" for the user of Ork. */
  taskUser: string
}

const notFound = (program: string): string =>
  program.includes("/")
    ? `${program}: it, or the interpreter that its first line names, was not found`
    : `${program}: not found in PATH`

const execProblem = (program: string, code: string, text: string): string => {
  switch (code) {
    case "ENOENT":
      return notFound(program)
    case "EACCES":
      return `${program}: not executable, or a folder on its path may not be entered`
    case "ENOEXEC":
      return `${program}: not a program (a script needs a first line such as #!/bin/sh)`
    case "E2BIG":
      return `${program}: its arguments and environment are too long for the system; pass large values as input`
    default:
      return `${program}: ${text}`
  }
}

const userProblem = (user: string, code: string, text: string): string => {
  if (user === "") return `the user of tasks (task_user): ${text}`
  if (code === "EACCES") return `run_as ${user}: ${ROOT_VIOLATION}`
  if (code === "ENOENT" || code === "ESRCH") return `run_as: there is no user ${user}`
  return code === "EPERM" ? `run_as: only root may start processes as ${user}` : `run_as ${user}: ${text}`
}

/** Returns the user of a task that is not Ork's own, and what to do if it lacks rights. */
const userHint = ({ runAs, taskUser }: Pick<CommandInfo, "runAs" | "taskUser">): string => {
  if (runAs !== "") return `; the task runs as the user ${runAs} (run_as)`
  if (taskUser === "") return ""
  return `; the task runs as the user ${taskUser}, because Ork runs as root: give that user access, or set task_user in ork.yaml`
}

/** Returns a message such as `could not start: python9: not found in PATH (ENOENT)`. */
export const describeStartFailure = (failed: Failed, command: CommandInfo): string =>
  `could not start: ${startFailureReason(failed, command)}`

export const startFailureReason = ({ stage, errno, text }: Failed, command: CommandInfo): string => {
  const code = errnoName(errno)
  const reason = (): string => {
    switch (stage) {
      case "cwd":
        return `the working folder ${command.cwd} ${code === "ENOENT" ? "does not exist" : `cannot be entered: ${text}`}`
      case "user":
        return userProblem(command.runAs, code, text)
      case "exec":
        return execProblem(command.argv[0] ?? "", code, text)
      case "limits":
        return `its resource limits cannot be set: ${text}`
      case "files":
        return `its files cannot be created: ${text}`
      case "fork":
        return `the system cannot create a process: ${text}`
      case "sandbox":
        return `it cannot be confined: ${text}; \`sandbox: off\` in ork.yaml runs tasks without protection`
      default:
        return stage satisfies never
    }
  }
  const hint = code === "EACCES" && (stage === "cwd" || stage === "exec") ? userHint(command) : ""
  return `${reason()} (${code})${hint}`
}

/** Exit code of a shell whose command may not be executed. */
const NOT_EXECUTABLE = 126

/** Returns null for exit code 0 with a complete log. */
export const describeExit = (
  exited: Exited,
  { memoryBytes, ...user }: { memoryBytes: number; runAs: string; taskUser: string },
): string | null => {
  const log = describeLog(exited)
  if (exited.code === 0) return log
  const hint = exited.code === NOT_EXECUTABLE ? userHint(user) : ""
  return describeEnd(exited, memoryBytes) + (log === null ? "" : ` (${log})`) + hint
}

/** Returns null for a complete log. */
export const describeLog = ({ logErrno }: Exited): string | null =>
  logErrno === 0 ? null : `its log is incomplete: ${errnoName(logErrno)}`

const describeEnd = (exited: Exited, memoryBytes: number): string => {
  const end = exited.signal !== 0 ? `killed by ${signalName(exited.signal)}` : `exit code ${exited.code}`
  if (!exited.outOfMemory) return end
  const reason = `used more than ${formatBytes(memoryBytes)} of memory`
  return exited.signal !== 0 ? `killed: ${reason}` : `${end}: a process was killed: it ${reason}`
}
