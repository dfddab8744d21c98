// Uploads outputs that are too large for a report, before the report.

import { createReadStream } from "node:fs"
import type { Registration } from "./registration.ts"
import type { ServerClient } from "./server-client.ts"
import { ServerError } from "./server-error.ts"
import type { AssignedTask } from "../tasks/assigned-task.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import { messageOf } from "../../core/model/error-message.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { ATTEMPT_TOKEN_HEADER } from "../../protocol/api/workers.ts"

const TIMEOUT_MS = 600_000

export interface UploadOptions {
  client: ServerClient
  objects: Required<Pick<ObjectStore, "localPath">>
  /** Called if another worker holds the attempt now. */
  onRejected(): void
}

/** Returns the result to report: a failure if the output could not be uploaded. */
export const uploadOutput = async (
  task: AssignedTask,
  registration: Registration,
  result: AttemptResult,
  { client, objects, onRejected }: UploadOptions,
): Promise<AttemptResult> => {
  const { output } = result
  if (output === undefined || "inline" in output) return result
  const { row, attempt_id, token } = task.wire
  const query = new URLSearchParams({ row: String(row), attempt_id })
  const file = objects.localPath(output.key)
  const upload = (): Promise<unknown> =>
    client.json({
      path: `/workers/${registration.id}/outputs?${query.toString()}`,
      key: registration.token,
      bytes: ReadableStream.from(createReadStream(file)) as ReadableStream<Uint8Array>,
      headers: { [ATTEMPT_TOKEN_HEADER]: token },
      signal: registration.ended,
      timeoutMs: TIMEOUT_MS,
    })
  try {
    await client.withRetries("upload an output", registration.ended, upload)
    return result
  } catch (error) {
    if (error instanceof ServerError && error.status === 409) onRejected()
    const { output: _, ...rest } = result
    return { ...rest, state: "failed", error: `its output could not be sent: ${messageOf(error)}` }
  }
}
