// What rows came to, by place. Most places are told apart by their node alone, so that no text is made for them.

import type { Output } from "../../../core/model/change.ts"
import type { TaskStatus } from "../../../core/model/status.ts"

export interface Result {
  status: TaskStatus
  output: Output | null
}

export class Results {
  readonly #runs = new Map<number, Map<number | string, Result>>()

  get(runSeq: number, node: number, path: string): Result | undefined {
    return this.#runs.get(runSeq)?.get(placeIn(node, path))
  }

  set(runSeq: number, node: number, path: string, result: Result): void {
    let run = this.#runs.get(runSeq)
    if (run === undefined) this.#runs.set(runSeq, (run = new Map<number | string, Result>()))
    run.set(placeIn(node, path), result)
  }
}

/** Key of a row among those of its run. */
export const placeIn = (node: number, path: string): number | string => (path === "" ? node : `${node}/${path}`)
