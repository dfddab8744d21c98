// A graph in code: references are typed, so that file.pth would not compile.
import { graph, task } from "ork"
import { z } from "zod"

export const discover = task("discover", { input: z.object({ day: z.string() }) }, ({ day }) => ({
  files: ["a", "b", "c"].map((name) => ({ path: `${day}/${name}.csv`, bytes: 100 })),
}))

export const load = task("load", { input: z.object({ path: z.string() }), retry: { attempts: 5 } }, ({ path }) => ({
  table: path.replaceAll(/\W/g, "_"),
}))

export const report = task("report", { input: z.object({ tables: z.array(z.object({ table: z.string() })) }) }, ({ tables }) =>
  tables.map(({ table }) => table).join(" "),
)

export const etl = graph("etl", { params: z.object({ day: z.iso.date() }) }, (g) => {
  const found = g.task("discover", discover, { day: g.params.day })
  const loaded = g.each("load", found.files, load, (file) => ({ path: file.path }), { concurrency: 2 })
  return g.task("report", report, { tables: loaded }, { if: g.cel`size(${found.files}) > ${0}` })
})
