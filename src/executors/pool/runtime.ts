// The language-specific part of the function executor.

export interface Runtime {
  /** Name of the executor. */
  readonly name: "node" | "python"
  /** Returns the command that starts a worker process. */
  argv(): string[]
  /** Returns a name for the code that one process may load together with this file: files with the same key share modules. */
  codeKey(file: string): string
}
