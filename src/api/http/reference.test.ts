// docs/reference/api.md lists every route and every error code.

import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { ERROR_CODES } from "../../protocol/api/common.ts"
import { ROUTES } from "../routes/table.ts"

const text = readFileSync(new URL("../../../docs/reference/api.md", import.meta.url), "utf8")

test("the reference lists exactly the routes of the table", () => {
  const listed = [...text.matchAll(/`((?:GET|POST|PUT|DELETE) \/[^`]*)`/g)].map((match) => match[1]!)
  const routes = ROUTES.map((route) => `${route.method} ${route.path}`)
  expect([...new Set(listed)].toSorted()).toEqual(routes.toSorted())
})

test("the reference lists every error code with its status", () => {
  for (const [code, status] of Object.entries(ERROR_CODES)) expect(text).toMatch(new RegExp(`\`${code}\` +\\| ${status} `))
})
