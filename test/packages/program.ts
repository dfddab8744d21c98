// A program of a user, in JavaScript, so that every runtime can run it: jobs on SQLite, a durable function and a graph in virtual time.

export const PROGRAM = `
import { graph, Ork, task, workflow } from "ork"
import { OrkClient } from "ork/client"
import { testOrk } from "ork/test"

const double = task("double", {}, ({ n }) => ({ n: 2 * n }))
const later = workflow("later", {}, async ({ n }, step) => {
  const first = await step.call(double, { n })
  await step.sleep("rest", "3d")
  return await step.call(double, first)
})
const sum = graph("sum", {}, (g) => {
  const first = g.task("first", double, { n: 2 })
  return g.task("second", double, { n: first.n }, { if: g.cel\`\${first.n} > \${1}\` })
})

const ork = await Ork.open({ database: "sqlite:app.db", objects: "file:objects", run: [double] })
const job = await ork.enqueue(double, { n: 4 })
const direct = await job.result()
await ork.stop()

const kit = await testOrk({ run: [double, later, sum] })
const sleeper = await kit.enqueue(later, { n: 1 })
const run = await kit.enqueue(sum, {})
await kit.advance("1h")
await kit.crash()
await kit.advance("3d")
const virtual = [await sleeper.result(), await run.result()]
await kit.stop()

console.log(JSON.stringify({ direct, virtual, client: typeof new OrkClient({ url: "http://127.0.0.1:1" }).enqueue }))
`

export const PRINTED = { direct: { n: 8 }, virtual: [{ n: 4 }, { n: 8 }], client: "function" }
