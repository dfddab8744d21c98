// What tells one language from another for the function executor.

export interface Runtime {
  /** Of the executor. */
  readonly name: "node" | "python"
  /** What starts a worker process. */
  argv(): string[]
}
