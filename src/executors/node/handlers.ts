// Handlers: functions by queue name, the default export of one file, for jobs without a task of their own. They run as functions do,
// in worker processes; which queues there are is asked of a process too, so that none of their code runs in the server.

import { execFile } from "node:child_process"
import { basename, dirname } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import type { AttemptResult } from "../../core/change.ts"
import { HANDLER_EXECUTOR } from "../../core/job-node.ts"
import type { Assignment, Executor, LaunchContext } from "../executor.ts"
import { serverEnvironment } from "../process/environment.ts"
import { nodeArgv } from "./runtime.ts"

const NAMES = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./handler-names.ts" : "./handler-names.js", import.meta.url),
)
const ASK_MS = 30_000

/** Rejects with what is wrong with the file. */
export const handlerQueues = async (file: string): Promise<string[]> => {
  const [program, ...args] = nodeArgv(NAMES)
  const asked = promisify(execFile)(program!, [...args, file], { env: serverEnvironment(process.env), timeout: ASK_MS })
  const { stdout } = await asked.catch((error: Error & { stderr?: string }) => {
    const said = (error.stderr ?? "").trim().split("\n")
    throw new Error(said.find((line) => /error|: /i.test(line)) ?? error.message, { cause: error })
  })
  return JSON.parse(stdout.trim().split("\n").at(-1)!) as string[]
}

export class HandlerExecutor implements Executor {
  readonly name = HANDLER_EXECUTOR
  readonly #functions: Executor
  readonly #file: string

  /** `functions`: the executor `node`, which somebody else starts and stops. */
  constructor(functions: Executor, file: string) {
    this.#functions = functions
    this.#file = file
  }

  launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const node = { ...assignment.node, file: basename(this.#file), function: assignment.node.queue }
    return this.#functions.launch({ ...assignment, node, code: { folder: dirname(this.#file), bundle: null } }, context)
  }
}
