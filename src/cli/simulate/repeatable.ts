// Decides from its definition whether a task may do its work twice.

import { isWaitingExecutor } from "../../core/model/waiting-on.ts"
import type { Node } from "../../core/model/workflow.ts"

/** Methods of HTTP that may be repeated (RFC 9110, section 9.2.2). */
const IDEMPOTENT_METHODS = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]

/** Values that are the same in every attempt, and that a task can pass on as a key. */
const KEYS = /\brun\.id\b|\bORK_RUN_ID\b|\bORK_TASK_ID\b|idempotency[-_]key/i

/** Returns true for a request that may be repeated, and for a task that gives what it calls a key that is the same in every attempt. */
export const isRepeatable = (node: Node): boolean => {
  if (isWaitingExecutor(node.executor)) return true
  if (node.executor === "http" && hasIdempotentMethod(node)) return true
  const { command, fields, input, env } = node
  return KEYS.test(JSON.stringify({ command, fields, input, env }))
}

const hasIdempotentMethod = ({ fields: { method } }: Node): boolean => {
  if (method === undefined) return true
  return "lit" in method && typeof method.lit === "string" && IDEMPOTENT_METHODS.includes(method.lit.toUpperCase())
}
