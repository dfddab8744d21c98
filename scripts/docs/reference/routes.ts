// Tables of the routes of the API, by section of the OpenAPI document.

import { openapi, type Operation } from "../../../src/api/http/openapi.ts"
import { ROUTES } from "../../../src/api/routes/table.ts"
import { codeText, markdownTable } from "./table.ts"

export const routeTables = (): string => {
  const { paths, tags } = openapi(ROUTES, "")
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ route: `${method.toUpperCase()} ${path}`, operation })),
  )
  return tags
    .map(({ name }) => {
      const rows = operations
        .filter(({ operation }) => operation.tags.includes(name))
        .map(({ route, operation }) => [
          codeText(route),
          operation["x-scope"] ?? "none",
          operation.summary,
          fieldsOf(operation).map(codeText).join(", "),
        ])
      return `### ${name[0]!.toUpperCase()}${name.slice(1)}\n\n${markdownTable(["route", "scope", "what", "fields"], rows)}`
    })
    .join("\n\n")
}

/** Fields that every list has. */
const PAGING = ["limit", "cursor"]

/** Names the fields of the query and of the body. The OpenAPI document describes them. */
const fieldsOf = ({ parameters, requestBody }: Operation): string[] => {
  const query = parameters.filter((parameter) => parameter.in === "query").map(({ name }) => name)
  const body = requestBody?.content["application/json"]?.schema["properties"] ?? {}
  return [...query.filter((name) => !PAGING.includes(name)), ...Object.keys(body)]
}
