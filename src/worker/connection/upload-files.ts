// Uploads what is too large for a report, before the report: a large output, and artifacts.

import { createReadStream } from "node:fs"
import type { Registration } from "./registration.ts"
import { ClientError } from "../../protocol/client/errors.ts"
import type { ServerClient } from "./server-client.ts"
import type { AssignedTask } from "../tasks/assigned-task.ts"
import type { Artifact } from "../../core/model/artifacts.ts"
import type { AttemptResult } from "../../core/model/change.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { artifactKey, readArtifactList } from "../../objects/artifacts/artifact-list.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { ATTEMPT_TOKEN_HEADER } from "../../protocol/api/workers.ts"

const TIMEOUT_MS = 600_000

export interface UploadOptions {
  client: ServerClient
  objects: Pick<ObjectStore, "get"> & Required<Pick<ObjectStore, "localPath">>
  /** Called if another worker holds the attempt now. */
  onRejected(): void
}

/** A result with the artifacts that the server has received. */
export type UploadedResult = AttemptResult & { artifacts?: readonly Artifact[] }

/** Returns the result to report: a failure if something could not be uploaded. */
export const uploadFiles = async (
  task: AssignedTask,
  registration: Registration,
  result: AttemptResult,
  { client, objects, onRejected }: UploadOptions,
): Promise<UploadedResult> => {
  const { output } = result
  const { prefix, artifacts } = task.work
  const upload = (what: string, path: string, key: string, query = {}): Promise<unknown> =>
    client.withRetries(`upload ${what}`, registration.ended, () =>
      client.json({ ...request(task, registration, path, query), bytes: bytesOf(objects.localPath(key)) }),
    )
  let what = "output"
  try {
    if (output !== undefined && "key" in output) await upload("an output", "outputs", output.key)
    if (artifacts === undefined || result.state !== "success") return result
    what = "artifacts"
    const files = (await readArtifactList(objects, prefix)) ?? []
    for (const { path } of files) await upload("an artifact", "artifacts", artifactKey(prefix, path), { file: path })
    return { ...result, artifacts: files }
  } catch (error) {
    if (error instanceof ClientError && error.status === 409) onRejected()
    const { output: _, ...rest } = result
    return { ...rest, state: "failed", error: `its ${what} could not be sent: ${messageOf(error)}` }
  }
}

const request = (
  { wire: { row, attempt_id, token } }: AssignedTask,
  registration: Registration,
  path: string,
  query: object,
) => ({
  path: `/workers/${registration.id}/${path}?${new URLSearchParams({ row: String(row), attempt_id, ...query }).toString()}`,
  key: registration.token,
  headers: { [ATTEMPT_TOKEN_HEADER]: token },
  signal: registration.ended,
  timeoutMs: TIMEOUT_MS,
})

const bytesOf = (file: string): ReadableStream<Uint8Array> =>
  ReadableStream.from(createReadStream(file)) as ReadableStream<Uint8Array>
