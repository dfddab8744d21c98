// Durable functions and graphs of a program as stored versions of workflows.

import { functionWorkflow } from "../../core/model/function-workflow.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { deploy, withoutSource } from "../../engine/services/deploy.ts"
import type { AnyWorkflow } from "../definitions.ts"
import type { AnyGraph } from "../graph/graph.ts"
import type { OrkParts } from "./ork-parts.ts"

export interface StoredWorkflow {
  workflowId: number
  versionId: number
  workflow: CompiledWorkflow
}

export class WorkflowVersions {
  readonly #parts: OrkParts
  readonly #wake: () => void
  readonly #stored = new Map<string, Promise<StoredWorkflow>>()
  /** Graphs of this process, by name. */
  readonly #graphs = new Map<string, AnyGraph>()

  /** `wake`: called when a graph was stored, for its schedules. */
  constructor(parts: OrkParts, wake: () => void) {
    this.#parts = parts
    this.#wake = wake
  }

  /** Returns the version of a definition, which is stored at the first call. */
  of(definition: AnyWorkflow | AnyGraph): Promise<StoredWorkflow> {
    const known = this.#stored.get(definition.name)
    if (known !== undefined) return known
    const stored =
      definition.kind === "graph" ? this.#deployGraph(definition) : this.deploy(functionWorkflow(definition.name, definition))
    this.#stored.set(definition.name, stored)
    stored.catch(() => this.#stored.delete(definition.name))
    return stored
  }

  /** Returns the graph of this process with that name. */
  graph(name: string): AnyGraph | undefined {
    return this.#graphs.get(name)
  }

  async deploy(workflow: CompiledWorkflow): Promise<StoredWorkflow> {
    const { workflowId, versionId } = await deploy(this.#parts.store, withoutSource(workflow))
    return { workflowId, versionId, workflow }
  }

  async #deployGraph(definition: AnyGraph): Promise<StoredWorkflow> {
    this.#graphs.set(definition.name, definition)
    const { deployGraph } = await import("../graph/compile-graph.ts")
    return await deployGraph(definition, { ...this.#parts, wake: this.#wake }, this.#parts.prepare)
  }
}
