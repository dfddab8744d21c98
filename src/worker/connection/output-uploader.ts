// Outputs that do not fit into a report: sent whole before it.

import { createReadStream } from "node:fs"
import type { ServerClient } from "./server-client.ts"
import { ServerError } from "./server-error.ts"
import type { Registration } from "./session.ts"
import type { AssignedTask } from "../tasks/assigned-task.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import type { Logger } from "../../engine/ports.ts"
import { messageOf } from "../../core/model/error-message.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { ATTEMPT_TOKEN_HEADER } from "../../protocol/api/workers.ts"

const TIMEOUT_MS = 600_000

export interface OutputUploaderOptions {
  link: ServerClient
  objects: Required<Pick<ObjectStore, "localPath">>
  log: Logger
  /** Others have it now. */
  refused(task: AssignedTask): void
}

export class OutputUploader {
  readonly #options: OutputUploaderOptions

  constructor(options: OutputUploaderOptions) {
    this.#options = options
  }

  /** The result to tell: a failure when the output cannot be sent. */
  async send(task: AssignedTask, session: Registration, result: AttemptResult): Promise<AttemptResult> {
    const { output } = result
    if (output === undefined || "inline" in output) return result
    const { link, objects, log, refused } = this.#options
    const { row, attempt_id, token } = task.wire
    const query = new URLSearchParams({ row: String(row), attempt_id })
    const file = objects.localPath(output.key)
    const once = (): Promise<unknown> =>
      link.json({
        path: `/workers/${session.id}/outputs?${query.toString()}`,
        key: session.token,
        bytes: ReadableStream.from(createReadStream(file)) as ReadableStream<Uint8Array>,
        headers: { [ATTEMPT_TOKEN_HEADER]: token },
        signal: session.ended,
        timeoutMs: TIMEOUT_MS,
      })
    try {
      await link.withRetries(once, session.ended, (error) =>
        log.warn({ error: error.message }, "could not send an output; trying again"),
      )
      return result
    } catch (error) {
      if (error instanceof ServerError && error.status === 409) refused(task)
      const { output: _, ...rest } = result
      return { ...rest, state: "failed", error: `its output could not be sent: ${messageOf(error)}` }
    }
  }
}
