// Artifacts of tasks: their list, and their content for downloads and previews.

import { basename, extname } from "node:path"
import type { Artifact } from "../../../core/model/artifacts.ts"
import { artifactKey, readArtifactList } from "../../../objects/artifacts/artifact-list.ts"
import { artifactContentQuery, artifactList, artifactQuery } from "../../../protocol/api/artifacts.ts"
import { taskParams } from "../../../protocol/api/runs.ts"
import type { TaskRow } from "../../../store/contract/store.ts"
import { findRun } from "../../http/find-run.ts"
import type { Api } from "../../http/ports.ts"
import { route, STREAMED } from "../../http/route.ts"
import { notFound } from "../../shared/errors.ts"
import { objectsOfAttempt } from "../../streams/log-source.ts"
import { sendObject } from "../../streams/output-stream.ts"
import { findTask } from "../../views/find-task.ts"

/** Types of images that a page may embed. Every other file is sent as bytes without a type. */
const IMAGE_TYPES: Readonly<Record<string, string>> = {
  ".avif": "image/avif",
  ".gif": "image/gif",
  ".jpeg": "image/jpeg",
  ".jpg": "image/jpeg",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".webp": "image/webp",
}

const OCTETS = "application/octet-stream"

/**
 * Returns the headers of a download. A task may write anything into a file: a browser downloads it, and never shows it as a page of
 * this server.
 */
const headersOf = (path: string): Record<string, string> => ({
  "content-disposition": `attachment; filename*=UTF-8''${encodeURIComponent(basename(path)).replaceAll("'", "%27")}`,
  "content-security-policy": "default-src 'none'; sandbox",
  "cross-origin-resource-policy": "same-origin",
})

export const artifactRoutes = [
  route({
    method: "GET",
    path: "/runs/{id}/tasks/{name}/artifacts",
    summary: "List the artifacts that an attempt of a task has stored",
    scope: "read",
    params: taskParams,
    query: artifactQuery,
    responses: { 200: { description: "The artifacts", schema: artifactList } },
    async handle({ params, query, api }) {
      const task = await findTask(api, await findRun(api, params.id), params.name, query)
      const { files } = await artifactsOf(api, task, query.attempt)
      return { status: 200, body: { attempt: query.attempt ?? task.attempt, items: files } }
    },
  }),
  route({
    method: "GET",
    path: "/runs/{id}/tasks/{name}/artifacts/content",
    summary: "Download an artifact",
    scope: "read",
    params: taskParams,
    query: artifactContentQuery,
    responses: {
      200: {
        description: "The bytes of the file, as an attachment; the type of an image is known by its name",
        types: [OCTETS, ...new Set(Object.values(IMAGE_TYPES))],
      },
    },
    async handle({ params, query, request, reply, api }) {
      const task = await findTask(api, await findRun(api, params.id), params.name, query)
      const { prefix, files } = await artifactsOf(api, task, query.attempt)
      const file = files.find(({ path }) => path === query.file)
      if (prefix === null || file === undefined) throw notFound(`task ${task.name} has no artifact ${query.file}`)
      const stored = { key: artifactKey(prefix, file.path), bytes: Math.min(file.bytes, query.length ?? file.bytes) }
      const type = IMAGE_TYPES[extname(file.path).toLowerCase()] ?? OCTETS
      await sendObject({ api, request, reply }, stored, { type, headers: headersOf(file.path) })
      return STREAMED
    },
  }),
]

const artifactsOf = async (
  api: Api,
  task: TaskRow,
  attempt: number | undefined,
): Promise<{ prefix: string | null; files: readonly Artifact[] }> => {
  const prefix = await objectsOfAttempt(api, task, attempt)
  return { prefix, files: prefix === null ? [] : ((await readArtifactList(api.objects, prefix)) ?? []) }
}
