// A planted bug: text replacements in src/ that break the product in one way, and the command that must fail with it.

import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

export interface Edit {
  file: string
  /** Occurs exactly once in the file. */
  find: string
  replace: string
}

/** Arguments of test/sim/main.ts, or test files (with further arguments of vitest). */
export type Finder = { sim: string[] } | { tests: string[] }

export interface PlantedBug {
  name: string
  /** The fault of the product, in one sentence. */
  bug: string
  edits: Edit[]
  foundBy: Finder
}

export const SIM_ON_SQLITE: Finder = { sim: ["--seeds", "400"] }
export const SIM_ON_POSTGRES: Finder = { sim: ["--store", "postgres", "--seeds", "60"] }

/** The conformance tests of a store whose full names match. */
export const conformanceOf =
  (store: "sqlite" | "postgres") =>
  (pattern: string): Finder => ({ tests: [`src/store/${store}/conformance.test.ts`, "-t", pattern] })

/** Returns why an edit cannot be applied to a checkout; null: it can. */
export const editProblem = (root: string, { file, find, replace }: Edit): string | null => {
  const count = readFileSync(join(root, file), "utf8").split(find).length - 1
  if (count !== 1) return `${file} contains this text ${count} times, not once: ${find}`
  return find === replace ? `${file}: the edit changes nothing` : null
}

export const plant = (root: string, { edits }: PlantedBug): void => {
  for (const edit of edits) {
    const problem = editProblem(root, edit)
    if (problem !== null) throw new Error(problem)
    const path = join(root, edit.file)
    writeFileSync(
      path,
      readFileSync(path, "utf8").replace(edit.find, () => edit.replace),
    )
  }
}
