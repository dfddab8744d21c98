// What a mock can replace: the functions of a program, and the tasks of its graphs that run something.

import { FUNCTION_EXECUTOR } from "../../core/model/function.ts"
import { isWaitingExecutor } from "../../core/model/waiting-on.ts"
import { BUILTIN_EXECUTORS } from "../../core/model/workflow.ts"
import { nearest } from "../../core/values/nearest.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import { isDefinition } from "../check-definitions.ts"
import type { Definition } from "../definitions.ts"

const MOCKED_EXECUTORS: ReadonlySet<string> = new Set([
  FUNCTION_EXECUTOR,
  ...BUILTIN_EXECUTORS.filter((name) => !isWaitingExecutor(name)),
])

export class MockableNames {
  /** Names of functions, by the names of their definitions. */
  readonly #functions = new Map<string, string>()
  /** Names of graphs, and of tasks that wait or contain tasks. */
  readonly #others = new Set<string>()
  readonly #tasks = new Set<string>()

  /** Reads the stored graphs among the definitions. */
  static async of(
    definitions: readonly Definition[],
    store: Pick<ServerStore, "getWorkflow" | "getVersion">,
  ): Promise<MockableNames> {
    const names = new MockableNames()
    for (const definition of definitions) {
      if (definition.kind === "graph") await names.#addGraph(definition.name, store)
      else names.#functions.set(definition.name, definition.functionName)
    }
    return names
  }

  async #addGraph(graph: string, store: Pick<ServerStore, "getWorkflow" | "getVersion">): Promise<void> {
    const { versionId } = (await store.getWorkflow(graph))!
    this.#others.add(graph)
    for (const { name, executor } of (await store.getVersion(versionId)).nodes)
      (MOCKED_EXECUTORS.has(executor) ? this.#tasks : this.#others).add(name)
  }

  /** Returns the name that attempts of what is mocked have. Throws when there is nothing to replace. */
  check(given: unknown): string {
    const name = isDefinition(given) ? given.name : given
    if (typeof name !== "string") throw new TypeError("mock takes a definition, or the name of one or of a task of a graph")
    const found = this.#functions.get(name) ?? (this.#tasks.has(name) && !isDefinition(given) ? name : undefined)
    if (found !== undefined) return found
    const known = [...this.#functions.keys(), ...this.#tasks].toSorted()
    const near = nearest(name, known)
    const hint = near === undefined ? `; what can be replaced is ${known.join(", ")}` : `; did you mean ${near}?`
    throw new TypeError(
      this.#others.has(name)
        ? `mock: ${name} runs nothing that a mock could replace${hint}`
        : `mock: neither run of testOrk nor a graph in it has ${JSON.stringify(name)}${hint}`,
    )
  }
}
