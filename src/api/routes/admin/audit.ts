// The audit log: every change, sign-in and refusal, with who made it.

import { auditList, auditQuery } from "../../../protocol/api/service.ts"
import { numberCursor, pageOf, parseNumberCursor } from "../../http/cursors.ts"
import { route } from "../../http/route.ts"
import { auditShape } from "../../views/service-json.ts"

export const auditRoutes = [
  route({
    method: "GET",
    path: "/audit",
    summary: "List changes, sign-ins and refusals, newest first; with `after`, oldest first",
    scope: "admin",
    concerns: "server",
    query: auditQuery,
    responses: { 200: { description: "A page of changes", schema: auditList } },
    async handle({ query: { limit, cursor, after }, api }) {
      const before = cursor === undefined ? {} : { before: parseNumberCursor("a", cursor) }
      const rows = await api.store.listAudit({ limit: limit + 1, ...(after === undefined ? before : { after }) })
      return { status: 200, body: pageOf(rows, limit, auditShape, (row) => numberCursor("a", row.seq)) }
    },
  }),
]
