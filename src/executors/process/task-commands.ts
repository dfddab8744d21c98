// Runs commands of Ork on behalf of a task by the spawn helper.

import { constants } from "node:os"
import { allowsRoot } from "../../core/rules/access/policy.ts"
import { maskValues } from "../../objects/mask.ts"
import type { Environment } from "../environment.ts"
import type { Assignment } from "../executor.ts"
import type { TaskCommand, TaskCommands } from "../interpreter/task-commands.ts"
import type { HelperSupply } from "./helper-supply.ts"
import { describeExit, startFailureReason } from "./messages.ts"
import type { StartRequest } from "./protocol.ts"

const { SIGKILL } = constants.signals
const MAX_LOG_BYTES = 16 << 20

export const taskCommands = (supply: HelperSupply, server: Environment, assignment: Assignment): TaskCommands => ({
  server,
  user: supply.userOf(assignment.node.runAs),
  run: (command, signal) => runCommand(supply, assignment, command, signal),
})

const runCommand = async (
  supply: HelperSupply,
  assignment: Assignment,
  command: TaskCommand,
  signal: AbortSignal,
): Promise<string | null> => {
  const helper = await supply.get()
  const request = requestOf(assignment, command)
  const user = { runAs: request.runAs, taskUser: supply.taskUser }
  return new Promise((resolve) => {
    const end = (error: string | null): void => {
      signal.removeEventListener("abort", kill)
      resolve(error)
    }
    const id = helper.run(request, {
      started: () => {},
      failed: (failed) => end(startFailureReason(failed, { ...request, ...user })),
      exited: (exited) => end(describeExit(exited, { memoryBytes: 0, ...user })),
      lost: (reason) => end(reason),
    })
    const kill = (): void => helper.kill(id, SIGKILL)
    signal.addEventListener("abort", kill, { once: true })
    if (signal.aborted) kill()
  })
}

const requestOf = ({ node, policy, secrets }: Assignment, { argv, env, cwd, logPath }: TaskCommand): StartRequest => ({
  argv,
  env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
  cwd,
  stdinPath: "",
  logPath,
  outputPath: "",
  runAs: node.runAs ?? "",
  notRoot: policy !== undefined && !allowsRoot(policy),
  homeOfUser: true,
  input: null,
  memoryBytes: 0,
  cpuMillis: 0,
  secrets: maskValues(secrets),
  pipes: "",
  maxLogBytes: MAX_LOG_BYTES,
})
