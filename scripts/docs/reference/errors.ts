// The table of the error codes of the API.

import { ERROR_CODES, type ErrorCode } from "../../../src/protocol/api/common.ts"
import { codeText, markdownTable } from "./table.ts"

const MEANINGS: Readonly<Record<ErrorCode, string>> = {
  VALIDATION_ERROR: "the request contains something invalid or unknown",
  UNAUTHORIZED: "the key is missing or unknown",
  FORBIDDEN: "the key lacks the scope, or is limited to other workflows",
  NOT_FOUND: "the resource or the route does not exist",
  METHOD_NOT_ALLOWED: "`Allow` lists the available methods",
  CONFLICT: "not possible in the current state",
  TOO_LARGE: "the body exceeds 1 MiB",
  UNSUPPORTED_MEDIA_TYPE:
    "the body is not JSON (or, for definitions, YAML), or it is compressed (only `identity` is supported)",
  RATE_LIMITED: "too many wrong keys; `Retry-After` tells how long to wait",
  INTERNAL: "an error in Ork; its log has details under the request's number",
  UNAVAILABLE: "the database or the object store is unavailable; nothing was changed, `Retry-After` tells when to retry",
}

export const errorTable = (): string =>
  markdownTable(
    ["code", "status", "when"],
    Object.entries(ERROR_CODES).map(([code, status]) => [codeText(code), String(status), MEANINGS[code as ErrorCode]]),
  )
