// Exports of runs: one document with definition, params, inputs, outputs, attempts and logs, without secrets.

import { runExport } from "../../../protocol/api/run-export.ts"
import { runParams } from "../../../protocol/api/runs.ts"
import { may } from "../../auth/auth.ts"
import { findRun } from "../../http/find-run.ts"
import { route, STREAMED } from "../../http/route.ts"
import { exportRun } from "../../views/run-export.ts"

export const exportRoutes = [
  route({
    method: "GET",
    path: "/runs/{id}/export",
    summary: "Export a run: definition, params, inputs, outputs, attempts and logs, without secrets",
    scope: "read",
    params: runParams,
    responses: {
      200: { description: "The run; with the files of its version for a key with the scope author", schema: runExport },
    },
    async handle({ params, caller, request, reply, api }) {
      const run = await findRun(api, params.id)
      const workflow = { name: run.workflow, tags: (await api.store.getTags(run.workflow)) ?? [] }
      const files = may(caller, "author", workflow)
      const pieces = exportRun(api, run, { now: api.clock.now(), files, secret: api.secret })
      // An error before the first piece is a response; later ones abort the stream.
      const first = await pieces.next()
      const stream = api.streams.open(request, reply, { type: "application/json; charset=utf-8" })
      try {
        if (first.done !== true) await stream.send(first.value)
        for await (const piece of pieces) {
          if (stream.closed.aborted) break
          await stream.send(piece)
        }
        stream.end()
      } catch (error) {
        api.log.warn({ error: String(error) }, "aborted the export of a run")
        stream.abort()
      }
      return STREAMED
    },
  }),
]
