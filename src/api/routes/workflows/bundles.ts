// Bundles: the files that a definition names. `ork deploy` sends the bundle before the definition. Workers fetch it to run the tasks.

import { bundleKey, hashOf, MAX_BUNDLE_BYTES } from "../../../objects/bundles/bundles.ts"
import { InvalidArchive, readTar } from "../../../objects/bundles/tar.ts"
import { bundle, bundleParams } from "../../../protocol/api/workflows.ts"
import { collectBody } from "../../http/body.ts"
import { invalidField, notFound } from "../../shared/errors.ts"
import { route } from "../../http/route.ts"

const checkArchive = (bytes: Buffer): void => {
  try {
    readTar(bytes)
  } catch (error) {
    if (error instanceof InvalidArchive) throw invalidField("", `the body is not an archive of plain files: ${error.message}`)
    throw error
  }
}

export const bundleRoutes = [
  route({
    method: "PUT",
    path: "/bundles/{hash}",
    summary: "Store the files of a definition as a tar archive of at most 16 MiB, under its SHA-256",
    scope: "author",
    concerns: "caller",
    params: bundleParams,
    body: { bytes: true },
    responses: { 200: { description: "The stored bundle", schema: bundle } },
    errors: [413],
    audit: "bundle.put",
    async handle({ params: { hash }, body, api }) {
      const bytes = await collectBody(body, MAX_BUNDLE_BYTES)
      if (hashOf(bytes) !== hash) throw invalidField("hash", "is not the SHA-256 of the body")
      checkArchive(bytes)
      await api.workflows.putBundle({ hash, bytes })
      return { status: 200, body: { hash, bytes: bytes.length } }
    },
  }),
  route({
    method: "GET",
    path: "/bundles/{hash}",
    summary: "Get the files of a workflow version",
    scope: "worker",
    concerns: "server",
    params: bundleParams,
    responses: { 200: { description: "A tar archive", types: ["application/octet-stream"] } },
    async handle({ params: { hash }, api }) {
      const bytes = await api.objects.get(bundleKey(hash))
      if (bytes === null) throw notFound(`there is no bundle ${hash}`)
      return { status: 200, body: Buffer.from(bytes), headers: { "content-type": "application/octet-stream" } }
    },
  }),
]
