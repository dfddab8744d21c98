// `ork worker` of the built command as a live process.

import { temporaryFolder } from "./ork.ts"
import { type OrkProcess, startOrk } from "./ork-process.ts"
import { probe, type Server } from "./server.ts"

export interface WorkerStart {
  name: string
  capacity?: number
  args?: string[]
  cwd?: string
}

/** Starts a worker; resolves when it claims tasks. */
export const startWorker = async (
  server: Pick<Server, "url" | "key">,
  { name, capacity = 8, args = [], cwd = temporaryFolder() }: WorkerStart,
): Promise<OrkProcess> => {
  const flags = ["--server", server.url, "--name", name, "--capacity", String(capacity), ...args]
  const worker = startOrk(["worker", ...flags], { cwd, env: { ORK_API_KEY: server.key, ORK_LOG: "info" } })
  await worker.printed(/claims work from/)
  return worker
}

const LISTENS = /listens at (http:\S+)/

/** Starts a worker that listens for pushed tasks; resolves with its address. */
export const startListener = async (
  key: string,
  port = "0",
  variable = "ORK_API_KEY",
): Promise<{ process: OrkProcess; url: string }> => {
  const env = { [variable]: key, ORK_LOG: "info" }
  const process = startOrk(["worker", "--listen", port], { cwd: temporaryFolder(), env })
  await process.printed(LISTENS)
  return { process, url: LISTENS.exec(process.stdout)![1]! }
}

export interface TaskShape {
  name: string
  path: string
  status: string
  attempt: number
  worker: string | null
  external_id: string | null
  error: string | null
  output: unknown
}

export const tasksOf = async (server: Server, runId: string): Promise<TaskShape[]> => {
  const all: TaskShape[] = []
  for (let cursor = ""; ;) {
    const { body } = await server.call("GET", `/runs/${runId}/tasks?limit=100${cursor}`)
    all.push(...(body["items"] as TaskShape[]))
    if (body["next_cursor"] === null) return all
    cursor = `&cursor=${encodeURIComponent(body["next_cursor"] as string)}`
  }
}

/** Resolves when at least `count` tasks of the run have the status. */
export const reached = (server: Server, runId: string, status: string, count: number): Promise<unknown> =>
  probe(async () => {
    const { body } = await server.call("GET", `/runs/${runId}`)
    return (body["tasks"] as Record<string, number>)[status]! >= count ? true : null
  })
