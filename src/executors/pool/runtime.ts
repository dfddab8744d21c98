// The language-specific part of the function executor.

import type { Python } from "../interpreter/python.ts"

export interface Runtime {
  /** Name of the executor. */
  readonly name: "node" | "python"
  /** Returns the command that starts a worker process. `python`: the Python that the task selects; null for the default. */
  argv(python: Python | null): string[]
  /** Returns a name for the code that one process may load together with this file: files with the same key share modules. */
  codeKey(file: string): string
}
