// Reads the output of a task, and of a fan-out or group as a whole. The engine stores that of a fan-out or group only where a task reads
// it, so that it is collected from its children here.

import { OutputReader } from "../attempts/outputs.ts"
import type { Output } from "../../core/model/change.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { RowKind } from "../../core/model/row.ts"
import { isGroup, shortName } from "../../core/model/task-path.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { ChildOutput, Store, TaskRow } from "../../store/contract/store.ts"
import { rowPages } from "../../store/contract/row-pages.ts"

const PAGE = 1000

export interface WholeOutputOptions {
  store: Pick<Store, "getTask" | "childOutputs">
  objects: Pick<ObjectStore, "get">
  /** Limit of what is read. Default: none. */
  maxBytes?: number
}

/** The outputs are together larger than the limit. */
export class OutputsTooLarge extends Error {}

export class WholeOutputs {
  readonly #store: WholeOutputOptions["store"]
  readonly #outputs: OutputReader
  #bytesLeft: number

  constructor({ store, objects, maxBytes = Number.POSITIVE_INFINITY }: WholeOutputOptions) {
    this.#store = store
    this.#outputs = new OutputReader(objects)
    this.#bytesLeft = maxBytes
  }

  /** Returns the output of a task outside of fan-outs, or of a whole fan-out or group; null if it has none. */
  async read(workflow: CompiledWorkflow, runId: RunId, name: string): Promise<Json> {
    const row = await this.#store.getTask({ runId, name, path: "" })
    return row === null ? null : await this.readRow(workflow, row)
  }

  async readRow(workflow: CompiledWorkflow, row: Pick<TaskRow, "row" | "node" | "kind" | "output" | "status">): Promise<Json> {
    if (row.status !== "success" && row.kind === "task") return null
    this.#count(row.output)
    const stored = await this.#outputs.value(row.output)
    if (stored !== null || row.kind === "task") return stored
    const { nodes } = workflow
    const list: Json[] = []
    const object: JsonObject = {}
    for await (const child of this.#children(row.row)) {
      const node = nodes[child.node]!
      const value = await this.readRow(workflow, { ...child, kind: kindOf(row.kind, node) })
      if (row.kind === "fan") list.push(value)
      else object[shortName(node)] = value
    }
    return row.kind === "fan" ? list : object
  }

  #count(output: Output | null): void {
    if (output === null || this.#bytesLeft === Number.POSITIVE_INFINITY) return
    this.#bytesLeft -= "key" in output ? output.bytes : JSON.stringify(output.inline).length
    if (this.#bytesLeft < 0) throw new OutputsTooLarge()
  }

  async *#children(containerRow: number): AsyncGenerator<ChildOutput> {
    for await (const page of rowPages(PAGE, (each) => this.#store.childOutputs({ containerRow, ...each }))) yield* page
  }
}

/** Returns the kind of a child: an instance in a fan-out, a task of any kind in a group. */
const kindOf = (parent: RowKind, node: Node): RowKind => {
  if (parent !== "fan" && node.fan !== undefined) return "fan"
  return isGroup(node) ? "group" : "task"
}
