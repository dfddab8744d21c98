// docs/reference/api.md has every route and every error code.

import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { ERROR_CODES } from "../../protocol/api/common.ts"
import { ROUTES } from "../routes/table.ts"

const text = readFileSync(new URL("../../../docs/reference/api.md", import.meta.url), "utf8")

test("every route is in the reference, and no other", () => {
  const told = [...text.matchAll(/`((?:GET|POST|PUT|DELETE) \/[^`]*)`/g)].map((match) => match[1]!)
  const routes = ROUTES.map((route) => `${route.method} ${route.path}`)
  expect([...new Set(told)].toSorted()).toEqual(routes.toSorted())
})

test("every error code is in the reference with its status", () => {
  for (const [code, status] of Object.entries(ERROR_CODES)) expect(text).toMatch(new RegExp(`\`${code}\` +\\| ${status} `))
})
