// The result of importing a file of another tool: workflow definitions, and notes about what could not be converted.

import type { WorkflowDefinition } from "../core/model/definition.ts"

export interface ImportedWorkflow {
  definition: WorkflowDefinition
  /** First line of the source that the workflow was made of. */
  line: number
  /** Text of the source for the header of the new file, without line breaks. */
  source: string
  /** Other files that the workflow needs, by name. */
  files?: { [name: string]: string }
}

/** Something of the source that the workflows do not contain, or that means something else in them. */
export interface ImportProblem {
  line: number
  message: string
}

export interface Imported {
  workflows: ImportedWorkflow[]
  problems: ImportProblem[]
}

/** Returns an import with problems only. */
export const notImported = (line: number, message: string): Imported => ({ workflows: [], problems: [{ line, message }] })

/** Writes `${{` of another tool as text: Ork would read it as an expression. */
export const literalText = (text: string): string => text.replaceAll("${{", () => "$${{")

/** Makes names valid and different from each other, in the order of the calls. */
export class UniqueNames {
  readonly #used = new Set<string>()
  readonly #fallback: string
  readonly #invalid: RegExp

  /** `invalid` matches the characters that a name cannot contain. */
  constructor(fallback: string, invalid: RegExp = /[^A-Za-z0-9_.-]+/g) {
    this.#fallback = fallback
    this.#invalid = invalid
  }

  add(wanted: string): string {
    const cleaned = wanted
      .replace(this.#invalid, "-")
      .replace(/^[^A-Za-z0-9_]+|[^A-Za-z0-9_]+$/g, "")
      .slice(0, 56)
    const base = cleaned === "" ? this.#fallback : cleaned
    let name = base
    for (let n = 2; this.#used.has(name.toLowerCase()); n++) name = `${base}-${n}`
    this.#used.add(name.toLowerCase())
    return name
  }
}
