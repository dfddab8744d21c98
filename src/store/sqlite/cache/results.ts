// Results of rows that this transaction finished or read. The claims at its end read most of them as upstream outputs.

import type { Output } from "../../../core/model/change.ts"
import type { TaskStatus } from "../../../core/model/status.ts"

export interface Result {
  status: TaskStatus
  output: Output | null
}

export class Results {
  readonly #runs = new Map<number, Map<number | string, Result>>()

  get(runSeq: number, node: number, path: string): Result | undefined {
    return this.#runs.get(runSeq)?.get(resultKey(node, path))
  }

  set(runSeq: number, node: number, path: string, result: Result): void {
    let run = this.#runs.get(runSeq)
    if (run === undefined) this.#runs.set(runSeq, (run = new Map<number | string, Result>()))
    run.set(resultKey(node, path), result)
  }
}

/** Returns the key of a row among those of its run. Top-level rows have a number for a key, so that no text is built for them. */
export const resultKey = (node: number, path: string): number | string => (path === "" ? node : `${node}/${path}`)
