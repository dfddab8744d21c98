// Records a server on SQLite that clients give work, until they stop: runs with small and with large outputs, jobs, keys, and a definition
// with a bundle. What the clients were told goes into the same log.

import { once } from "node:events"
import { closeSync, mkdirSync, openSync, realpathSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { probe, type Calls } from "../../support/server.ts"
import { buildRecorder, encodeTold } from "./log.ts"
import { serveFlows } from "./serve-flows.ts"

/** A response that a client received. */
export type Told =
  | { kind: "ready"; key: string }
  | { kind: "run"; id: string }
  | { kind: "success"; id: string; outputs: Record<string, unknown> }
  | { kind: "job"; id: string }
  | { kind: "completed"; id: string }
  | { kind: "key"; id: string }

export interface Recording {
  /** The folder that was recorded. */
  root: string
  /** The log. */
  file: string
  /** The folder of definitions. */
  flows: string
}

const SMALL = `name: small
tasks:
  a: { command: 'echo "{\\"n\\": $ORK_ATTEMPT}"' }
  b: { depends_on: [a], command: 'echo "{\\"done\\": true}"' }
`
const LARGE = `name: large
include: [data.txt]
tasks:
  a: { command: 'printf "{\\"text\\": \\"%s\\"}" "$(head -c 90000 /dev/zero | tr "\\0" x)" > "$ORK_OUTPUT"' }
  b: { depends_on: [a], foreach: [1, 2], command: 'echo "[1]"' }
`

const CLIENTS = 3

/** Records a server while clients start this many runs. */
export const recordWorkload = async (folder: string, runs: number): Promise<Recording> => {
  const root = join(realpathSync(folder), "root")
  const file = join(folder, "log")
  const flows = join(folder, "flows")
  mkdirSync(flows)
  writeFileSync(join(flows, "small.yaml"), SMALL)
  writeFileSync(join(flows, "large.yaml"), LARGE)
  writeFileSync(join(flows, "data.txt"), "data\n")
  mkdirSync(root)
  writeFileSync(file, "")
  const log = openSync(file, "a")
  const tell = (told: Told): void => void writeSync(log, encodeTold(told))
  const recorder = { LD_PRELOAD: buildRecorder(folder), ORK_POWER_ROOT: root, ORK_POWER_LOG: file }
  const { child, ready } = serveFlows({ flows, root, env: recorder })
  try {
    const server = await ready
    tell({ kind: "ready", key: server.key })
    let left = runs
    const client = async (): Promise<void> => {
      while (left-- > 0) await work(server, left, tell)
    }
    await Promise.all(Array.from({ length: CLIENTS }, client))
  } finally {
    child.kill("SIGKILL")
    await once(child, "exit")
    closeSync(log)
  }
  return { root, file, flows }
}

const work = async (server: Calls, number: number, tell: (told: Told) => void): Promise<void> => {
  const id = await server.trigger(number % 4 === 0 ? "large" : "small")
  tell({ kind: "run", id })
  if (number % 3 === 0) await job(server, tell)
  if (number % 10 === 0) {
    const { body } = await server.call("POST", "/keys", { name: `key ${number}`, scopes: ["read"] })
    tell({ kind: "key", id: body["id"] as string })
  }
  await server.reaches(id, "success")
  tell({ kind: "success", id, outputs: await readOutputs(server, id) })
}

interface Task {
  name: string
  path: string | null
  output: unknown
  output_object: object | null
}

/** Returns the outputs of all tasks as a client reads them; large ones by a request of their own. */
const readOutputs = async (server: Calls, id: string): Promise<Record<string, unknown>> => {
  const { body } = await server.call("GET", `/runs/${id}/tasks`)
  const outputs: Record<string, unknown> = {}
  for (const { name, path, output, output_object: object } of body["items"] as Task[]) {
    const read = async (): Promise<unknown> => (await server.call("GET", `/runs/${id}/tasks/${name}/output`)).body
    outputs[`${name} ${path ?? ""}`] = object === null ? output : await read()
  }
  return outputs
}

const job = async (server: Calls, tell: (told: Told) => void): Promise<void> => {
  const task = { command: "true" }
  const { body } = await server.call("POST", "/jobs", { name: "job", queue: "default", task })
  const id = body["id"] as string
  tell({ kind: "job", id })
  await probe(async () => ((await server.call("GET", `/jobs/${id}`)).body["status"] === "COMPLETED" ? true : null))
  tell({ kind: "completed", id })
}
