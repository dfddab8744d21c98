// The language-specific part of the function executor.

export interface Runtime {
  /** Name of the executor. */
  readonly name: "node" | "python"
  /** Returns the command that starts a worker process. */
  argv(): string[]
}
