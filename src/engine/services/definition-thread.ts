// Parses and compiles definitions of API callers in a thread with limits of time and memory, so that no definition can block or crash the
// server.

import { LimitedThread, LimitExceeded, moduleNextTo } from "../limited-thread.ts"
import type { ParsedDefinition, ParseOptions } from "../../definition/parse.ts"

export interface ParseRequest {
  text: string
  options: ParseOptions
}

const TIMEOUT_MS = 5000
const MAX_HEAP_MB = 256

export class DefinitionThread {
  readonly #thread: LimitedThread<ParseRequest, ParsedDefinition>

  constructor({ timeoutMs = TIMEOUT_MS }: { timeoutMs?: number } = {}) {
    const module = moduleNextTo(import.meta.url, "./definition-worker")
    this.#thread = new LimitedThread({ module, timeoutMs, maxHeapMb: MAX_HEAP_MB })
  }

  async parse(text: string, options: ParseOptions): Promise<ParsedDefinition> {
    try {
      return await this.#thread.call({ text, options })
    } catch (error) {
      if (!(error instanceof LimitExceeded)) throw error
      const message = `the definition cannot be compiled: ${error.message}; make it smaller`
      return { ok: false, problems: [{ path: "", message }] }
    }
  }

  stop(): Promise<void> {
    return this.#thread.stop()
  }
}
