// A graph in code and one in YAML, on one engine with the same tasks. Run: node examples/sdk/graph/main.ts
// The graph as YAML: ork export examples/sdk/graph/etl.ts
import { Ork, yaml } from "ork"
import { etl, load } from "./etl.ts"

const nightly = yaml<{ region: string }>(new URL("workflows/nightly.yaml", import.meta.url))

await using ork = await Ork.open({
  database: process.env["DATABASE_URL"] ?? "sqlite:.ork/sdk.db",
  run: [etl, nightly, load],
})
const run = await ork.enqueue(etl, { day: "2026-01-31" })
console.log(await run.result())
const other = await ork.enqueue(nightly, { region: "eu" })
console.log(JSON.stringify(await other.result()))
