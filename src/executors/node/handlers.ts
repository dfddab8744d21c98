// Files of handlers contain functions by queue name (the default export), for jobs without a task of their own, and functions
// that they register under names, for tasks that call them. They run in worker processes like other functions. Their names are
// read by a process too, so that none of their code runs in the server.

import { execFile } from "node:child_process"
import { basename, dirname } from "node:path"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import type { AttemptResult } from "../../core/model/change.ts"
import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import { HANDLER_EXECUTOR } from "../../core/rules/jobs/job-workflow.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { Assignment, Executor, LaunchContext } from "../executor.ts"
import { serverEnvironment } from "../process/environment.ts"
import type { HandlerNames } from "./function-loader.ts"
import { unknownFunction } from "../registry.ts"
import { nodeArgv } from "./runtime.ts"

const NAMES = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "./handler-names.ts" : "./handler-names.js", import.meta.url),
)
const LOAD_MS = 30_000

/** Reads the names in a file of handlers. Rejects with the error of a file that cannot be loaded. */
export const handlerNames = async (file: string): Promise<HandlerNames> => {
  const [program, ...args] = nodeArgv(NAMES)
  const loading = promisify(execFile)(program!, [...args, file], { env: serverEnvironment(process.env), timeout: LOAD_MS })
  const { stdout } = await loading.catch((error: Error & { stderr?: string }) => {
    const lines = (error.stderr ?? "").trim().split("\n")
    throw new Error(lines.find((line) => /error|: /i.test(line)) ?? error.message, { cause: error })
  })
  return JSON.parse(stdout.trim().split("\n").at(-1)!) as HandlerNames
}

interface Kind {
  name: string
  nameOf(node: Node): string
  registered: boolean
}

const HANDLERS: Kind = { name: HANDLER_EXECUTOR, nameOf: ({ queue }) => queue, registered: false }
const FUNCTIONS: Kind = { name: FUNCTION_EXECUTOR, nameOf: (node) => node.function ?? "", registered: true }

/** Paths of files by queue, and by name of a registered function. */
export interface HandlerFiles {
  queues: ReadonlyMap<string, string>
  functions: ReadonlyMap<string, string>
}

/** Returns the executors of handlers. `node`: the executor of that name, which the caller starts and stops. */
export const handlerExecutors = ({ queues, functions }: HandlerFiles, node: Executor, clock: Clock): Executor[] => [
  new HandlerExecutor(HANDLERS, queues, node, clock),
  new HandlerExecutor(FUNCTIONS, functions, node, clock),
]

class HandlerExecutor implements Executor {
  readonly #kind: Kind
  readonly #files: ReadonlyMap<string, string>
  readonly #node: Executor
  readonly #clock: Clock

  constructor(kind: Kind, files: ReadonlyMap<string, string>, node: Executor, clock: Clock) {
    this.#kind = kind
    this.#files = files
    this.#node = node
    this.#clock = clock
  }

  get name(): string {
    return this.#kind.name
  }

  launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { nameOf, registered } = this.#kind
    const name = nameOf(assignment.node)
    const file = this.#files.get(name)
    if (file === undefined) return Promise.resolve(this.#unknown(name))
    const node = { ...assignment.node, file: basename(file), function: name }
    return this.#node.launch({ ...assignment, node, code: { folder: dirname(file), bundle: null, registered } }, context)
  }

  /** Returns the failure of an unknown function. Only `ork run` launches such tasks, because it does not route by capabilities. */
  #unknown(name: string): AttemptResult {
    const error = `${unknownFunction(name, this.#files.keys(), "here")}; name the file that registers it with --handlers`
    return { state: "failed", startedAt: null, finishedAt: this.#clock.now(), error, retryable: false }
  }
}
