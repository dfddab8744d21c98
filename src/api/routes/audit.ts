// The audit log: every change with the key that made it.

import { auditList, auditQuery } from "../../protocol/api/service.ts"
import { numberCursor, pageOf, parseNumberCursor } from "../http/cursors.ts"
import { route } from "../http/route.ts"
import { auditShape } from "../views/shapes.ts"

export const auditRoutes = [
  route({
    method: "GET",
    path: "/audit",
    tag: "keys",
    summary: "List changes, newest first",
    scope: "admin",
    query: auditQuery,
    responses: { 200: { description: "A page of changes", schema: auditList } },
    async handle({ query: { limit, cursor }, api }) {
      const before = cursor === undefined ? {} : { before: parseNumberCursor("a", cursor) }
      const rows = await api.store.listAudit({ limit: limit + 1, ...before })
      return { status: 200, body: pageOf(rows, limit, auditShape, (row) => numberCursor("a", row.seq)) }
    },
  }),
]
