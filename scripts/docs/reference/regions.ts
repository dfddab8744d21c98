// Generated parts of the reference. A page marks one as `<!-- generated: NAME -->` … `<!-- end -->`.

import { celFunctionTables } from "./cel-functions.ts"
import { errorTable } from "./errors.ts"
import { fieldTables } from "./fields.ts"
import { metricTable } from "./metrics.ts"
import { routeTables } from "./routes.ts"

/** Pages with generated parts, and their content by name. */
export const generatedPages = (): Record<string, Record<string, string>> => ({
  "docs/reference/definition.md": fieldTables(),
  "docs/reference/expressions.md": celFunctionTables(),
  "docs/reference/api.md": { errors: errorTable(), routes: routeTables() },
  "docs/reference/metrics.md": { metrics: metricTable() },
})

/** Replaces the generated parts of a page. Throws if the page lacks one, or has one that is not generated. */
export const withRegions = (page: string, regions: Readonly<Record<string, string>>): string => {
  const found = [...page.matchAll(/<!-- generated: (.+?) -->/g)].map(([, name]) => name!)
  const wrong = [...Object.keys(regions).filter((name) => !found.includes(name)), ...found.filter((name) => !(name in regions))]
  if (wrong.length > 0) throw new Error(`the page and its generated parts differ: ${wrong.join(", ")}`)
  return page.replaceAll(
    /(<!-- generated: (.+?) -->)[\s\S]*?(<!-- end -->)/g,
    (_, start: string, name: string, end: string) => `${start}\n\n${regions[name]!}\n\n${end}`,
  )
}

/** Removes the alignment of tables, which the formatter adds. */
export const withoutAlignment = (page: string): string => page.replaceAll(/ {2,}/g, " ").replaceAll(/-{2,}/g, "-")
