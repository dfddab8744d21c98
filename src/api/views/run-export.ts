// Exports a run as one JSON document (protocol/api/run-export.ts), piece by piece: one task after the other.

import { type Output } from "../../core/model/change.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { SecretSource } from "../../core/model/ports.ts"
import { type CompiledWorkflow, secretNames } from "../../core/model/workflow.ts"
import { bundleKey } from "../../objects/bundles/bundles.ts"
import { maskJson, maskText } from "../../objects/mask.ts"
import { maskJsonStream } from "../../objects/mask-json-stream.ts"
import { TaskLog } from "../../objects/logs/task-log.ts"
import { attemptPrefix, type ObjectStore } from "../../objects/objects.ts"
import { readOutputObject } from "../../objects/shared/read-object.ts"
import { EXPORT_FORMAT, type exportedTask, type runExport } from "../../protocol/api/run-export.ts"
import { attemptShapes, runShape, taskShape } from "../../engine/run-json.ts"
import type { Catalog } from "../../store/contract/catalog.ts"
import type { RunRow, Store, TaskRow } from "../../store/contract/store.ts"
import { TaskInputs } from "./task-input.ts"
import type { z } from "zod"
import { rowPages } from "../../store/contract/row-pages.ts"

export interface ExportSource {
  store: Pick<Store, "getVersion" | "getTask" | "listAttempts" | "listTasks"> & Pick<Catalog, "listVersions">
  objects: ObjectStore
}

const PAGE_SIZE = 200
const MAX_OUTPUT_BYTES = 64 * 2 ** 20
const LOG_BYTES = 256 * 1024

type ExportedTask = z.output<typeof exportedTask>

export interface ExportOptions {
  now: number
  /** The export contains the files of the version. */
  files: boolean
  /** The values of the workflow's secrets are masked wherever the run has them, such as in a param. */
  secret: SecretSource
}

/** Yields the text of the document. */
export async function* exportRun(
  source: ExportSource,
  run: RunRow,
  { now, files, secret }: ExportOptions,
): AsyncGenerator<string> {
  const { store } = source
  const workflow = await store.getVersion(run.versionId)
  const secrets = await secretsOf(workflow, secret)
  const shape = runShape(run)
  const [version] = await store.listVersions({ name: run.workflow, before: run.version + 1, limit: 1 })
  const head: Omit<z.output<typeof runExport>, "tasks" | "bundle"> = {
    format: EXPORT_FORMAT,
    version: 1,
    exported_at: new Date(now).toISOString(),
    run: { ...shape, params: maskJson(shape.params as JsonObject, secrets) as JsonObject },
    definition: version?.versionId === run.versionId ? version.source : null,
    workflow: workflow as unknown as z.output<typeof runExport>["workflow"],
  }
  yield `${JSON.stringify(head, null, 1).slice(0, -2)},\n "bundle": `
  yield* files && workflow.bundle !== undefined ? exportBundle(source, workflow.bundle) : ["null"]
  yield `,\n "tasks": [`
  const inputs = new TaskInputs(source, run, workflow, { listed: false })
  let separator = "\n"
  for await (const row of tasksOf(store, run)) {
    yield separator
    yield* exportTask(source, row, { inputs, workflow, secrets })
    separator = ",\n"
  }
  yield "\n ]\n}\n"
}

const secretsOf = async ({ nodes }: CompiledWorkflow, secret: SecretSource): Promise<string[]> => {
  const values: string[] = []
  for (const name of new Set(nodes.flatMap(secretNames))) values.push((await secret(name)) ?? "")
  return values
}

async function* exportBundle({ objects }: ExportSource, hash: string): AsyncGenerator<string> {
  const key = bundleKey(hash)
  if ((await objects.size(key)) === null) {
    yield "null"
    return
  }
  yield `{"hash":${JSON.stringify(hash)},"tar":"`
  let rest: Uint8Array = Buffer.alloc(0)
  for await (const piece of readOutputObject(objects, key)) {
    // Three bytes become four characters.
    const bytes = Buffer.concat([rest, piece])
    const whole = bytes.length - (bytes.length % 3)
    yield bytes.toString("base64", 0, whole)
    rest = bytes.subarray(whole)
  }
  yield `${Buffer.from(rest).toString("base64")}"}`
}

async function* tasksOf(store: ExportSource["store"], { id: runId }: RunRow): AsyncGenerator<TaskRow> {
  for await (const page of rowPages(PAGE_SIZE, (each) => store.listTasks({ runId, ...each }))) yield* page
}

interface ExportedRun {
  inputs: TaskInputs
  workflow: CompiledWorkflow
  secrets: readonly string[]
}

/** Yields a task. A large output is copied in pieces: parsing it would block the server. */
async function* exportTask(
  source: ExportSource,
  row: TaskRow,
  { inputs, workflow, secrets }: ExportedRun,
): AsyncGenerator<string> {
  const { objects } = source
  const attempts = attemptShapes(row, await source.store.listAttempts(row.row))
  const shape = taskShape(row, workflow.nodes[row.node]!, { input: await inputs.of(row), attempts })
  const logs: ExportedTask["logs"] = []
  for (const { id, attempt } of attempts) {
    const { text, cut } = await logOf(objects, row, id)
    logs.push({ attempt, text: maskText(text, secrets), cut })
  }
  const stored = await storedOutput(objects, row.output)
  const task: Omit<ExportedTask, "output"> = {
    ...shape,
    input: maskJson(shape.input as Json, secrets),
    output_omitted: stored === "missing",
    logs,
  }
  yield `${JSON.stringify({ ...task, output: undefined }).slice(0, -1)},"output":`
  if (stored === null || stored === "missing") yield "null"
  else if ("inline" in stored) yield JSON.stringify(maskJson(stored.inline, secrets))
  else yield* maskJsonStream(readOutputObject(objects, stored.key), secrets)
  yield "}"
}

/** Returns what is to be exported: `missing` if the output is too large, or if the object store has lost it. */
const storedOutput = async (objects: ObjectStore, output: Output | null): Promise<Output | null | "missing"> => {
  if (output === null || "inline" in output) return output
  if (output.bytes > MAX_OUTPUT_BYTES) return "missing"
  return (await objects.size(output.key)) === null ? "missing" : output
}

const logOf = async (
  objects: ObjectStore,
  { runId, name }: TaskRow,
  attemptId: string,
): Promise<{ text: string; cut: boolean }> => {
  const log = new TaskLog(objects, attemptPrefix(runId, name, attemptId))
  const { bytes, offset } = await log.read(-LOG_BYTES, LOG_BYTES)
  return { text: Buffer.from(bytes).toString("utf8"), cut: offset > 0 }
}
