// What went wrong with a process, in words.

import { formatBytes, errnoName, signalName } from "../messages.ts"
import type { Exited, Failed } from "./protocol.ts"

export interface What {
  argv: string[]
  cwd: string
  runAs: string
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
  if (code === "ENOENT" || code === "ESRCH") return `run_as: there is no user ${user}`
  return code === "EPERM" ? `run_as: only root may start processes as ${user}` : `run_as ${user}: ${text}`
}

/** `could not start: python9: not found in PATH (ENOENT)` */
export const failedInWords = ({ stage, errno, text }: Failed, what: What): string => {
  const code = errnoName(errno)
  const reason = (): string => {
    switch (stage) {
      case "cwd":
        return `the working folder ${what.cwd} ${code === "ENOENT" ? "does not exist" : `cannot be entered: ${text}`}`
      case "user":
        return userProblem(what.runAs, code, text)
      case "exec":
        return execProblem(what.argv[0] ?? "", code, text)
      case "limits":
        return `its resource limits cannot be set: ${text}`
      case "files":
        return `its files cannot be made: ${text}`
      case "fork":
        return `the system gives no process: ${text}`
      default:
        return stage satisfies never
    }
  }
  return `could not start: ${reason()} (${code})`
}

/** null: exit 0. */
export const exitInWords = (exited: Exited, memoryBytes: number): string | null => {
  if (exited.code === 0) return null
  const log = exited.logErrno === 0 ? "" : ` (its log is incomplete: ${errnoName(exited.logErrno)})`
  return endInWords(exited, memoryBytes) + log
}

const endInWords = (exited: Exited, memoryBytes: number): string => {
  const end = exited.signal !== 0 ? `killed by ${signalName(exited.signal)}` : `exit code ${exited.code}`
  if (!exited.memoryHit) return end
  const reason = `used more than ${formatBytes(memoryBytes)} of memory`
  return exited.signal !== 0 ? `killed: ${reason}` : `${end}: a process was killed: it ${reason}`
}
