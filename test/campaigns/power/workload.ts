// Records a server on SQLite that clients give work, until they stop: runs with small and with large outputs, jobs, keys, and a definition
// with a bundle. What the clients were told goes into the same log.

import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { closeSync, mkdirSync, openSync, readFileSync, realpathSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { probe, serverAt, type Calls } from "../../support/server.ts"
import { buildRecorder, encodeTold } from "./log.ts"

const ORK = join(import.meta.dirname, "../../../bin/ork")

/** What a client was told. */
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
  mkdirSync(join(folder, "flows"))
  writeFileSync(join(folder, "flows/small.yaml"), SMALL)
  writeFileSync(join(folder, "flows/large.yaml"), LARGE)
  writeFileSync(join(folder, "flows/data.txt"), "data\n")
  mkdirSync(root)
  writeFileSync(file, "")
  const log = openSync(file, "a")
  const tell = (told: Told): void => void writeSync(log, encodeTold(told))
  const child = spawn(ORK, ["serve", "--port", "0", "--dir", join(folder, "flows")], {
    cwd: root,
    stdio: ["ignore", "pipe", "ignore"],
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      LD_PRELOAD: buildRecorder(folder),
      ORK_POWER_ROOT: root,
      ORK_POWER_LOG: file,
      ORK_DATA_DIR: join(root, ".ork"),
      ORK_LOG: "error",
    },
  })
  try {
    const server = await ready(child, root)
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
  return { root, file }
}

const ready = async (child: ChildProcess, root: string): Promise<Calls> => {
  let text = ""
  for await (const chunk of child.stdout!) {
    text += String(chunk)
    const url = /is ready at (http:\S+)/.exec(text)?.[1]
    if (url !== undefined && text.includes("admin key")) {
      return serverAt(url, readFileSync(join(root, ".ork/admin.key"), "utf8").trim())
    }
  }
  throw new Error(`the server ended: ${text}`)
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
