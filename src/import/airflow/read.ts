// Reads an Airflow file by Python's own parser, which does not import the file.

import { spawn } from "node:child_process"
import { text as readAll } from "node:stream/consumers"
import { fileURLToPath } from "node:url"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { ImportProblem } from "../imported.ts"

const READER = fileURLToPath(new URL("../../../python/read_airflow.py", import.meta.url))

export interface AirflowTask {
  id: string
  /** Name of the operator's class, or `@task` with what follows it. */
  operator: string
  args: JsonObject
  /** Arguments of which there is an instance per item; null: one instance. */
  expand: JsonObject | null
  line: number
}

export interface AirflowDag {
  id: string
  line: number
  args: JsonObject
  tasks: AirflowTask[]
  edges: [string, string][]
}

export interface AirflowFile {
  dags: AirflowDag[]
  functions: { [name: string]: { source: string; line: number; params: string[]; context: boolean } }
  /** Imports, constants and other code that the functions may use. */
  shared: string
  problems: ImportProblem[]
}

/** Throws an error that says what to do if Python is missing. */
export const readAirflow = async (text: string): Promise<AirflowFile> => {
  const python = spawn("python3", ["-I", READER], { stdio: ["pipe", "pipe", "pipe"] })
  const exited = new Promise<number | null>((resolve, reject) => {
    python.once("error", (error) =>
      reject(new Error(`python3 is needed to read Airflow files: ${error.message}; install it and try again`)),
    )
    python.once("close", resolve)
  })
  python.stdin.on("error", () => undefined)
  python.stdin.end(text)
  const [output, errors, code] = await Promise.all([readAll(python.stdout), readAll(python.stderr), exited])
  if (code !== 0) throw new Error(`python3 could not read the file: ${errors.trim().split("\n").at(-1)}`)
  return JSON.parse(output) as AirflowFile
}

/** Returns the source of a value that is not a constant; null for a constant. */
export const sourceOf = (value: Json | undefined): string | null =>
  isObject(value) && typeof value["$source"] === "string" ? value["$source"] : null

export const secondsOf = (value: Json | undefined): number | null => {
  if (typeof value === "number") return value
  return isObject(value) && typeof value["$seconds"] === "number" ? value["$seconds"] : null
}

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
