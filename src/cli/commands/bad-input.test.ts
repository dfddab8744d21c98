import { expect, test } from "vitest"
import { commandLine } from "../testing/command-line.ts"
import { containing } from "../../../test/support/matchers.ts"

test.each([
  [["trigger", "elt"], "there is no workflow elt; did you mean etl?"],
  [["trigger", "no such"], "there is no workflow no such; there are etl"],
  [["trigger", "etl", "-p", "n=x"], "params.n: must be a whole number"],
  [["trigger", "etl", "-p", "m=1"], "params.m: is not a param of the workflow"],
  [["trigger", "etl", "--priority", "11"], '--priority: "11" is not a whole number from 1 to 10'],
  [["trigger", "etl", "--logical-date", "soon"], "logical_date: must be a day"],
  [["trigger", "etl", "--cancel-on-interrupt"], "--cancel-on-interrupt needs --wait"],
  [["show", "ffff"], "there is no run ffff"],
  [["show", "01a1dd3a-3d9d-766c-92dd-29bd077c39b0"], "there is no run 01a1dd3a"],
  [["runs", "--trigger", "manaul"], '--trigger: there is no trigger "manaul"; did you mean manual?'],
  [["runs", "--created-after", "soon"], '--created-after: "soon" is not a day'],
  [["logs", "latest", "a"], "there is no run yet"],
  [["retry", "latest", "--from", "a", "--task", "b"], "give one of them"],
  [["retry", "latest", "--index", "1"], "name it"],
  [["pause", "elt"], "did you mean etl?"],
  [["backfill", "etl", "--from", "x", "--to", "2026-01-01"], "from: must be a day"],
  [["jobs", "submit"], "a job needs a name and a queue"],
  [["jobs", "submit", "x", "--queue", "q", "--payload", "{"], "--payload: is not JSON"],
  [["jobs", "submit", "x", "--queue", "q", "--after", "y"], "dependencies.0: must be a UUID"],
  [["jobs", "--status", "faild"], "did you mean FAILED?"],
  [["jobs", "--limit", "0"], '--limit: "0" is not a whole number from 1 to 1000'],
  [["jobs", "show", "x"], "job_id: must be a UUID"],
  [["queues", "set", "q"], "name a setting"],
  [["queues", "set", "q", "--rate", "10"], '--rate: "10" is not none'],
  [["queues", "set", "q", "--pause", "--resume"], "contradict"],
  [["keys", "create", "x"], "give the key at least one --scope"],
  [["keys", "create", "x", "--scope", "reed"], "did you mean read?"],
  [["keys", "revoke", "01a1dd3a-3d9d-766c-92dd-29bd077c39b0"], "there is no key"],
])("%j is rejected with exit code 2", async (args, message) => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" }, { params: { n: 1 } })
  const { code, stdout, stderr } = await world.ork(...args)
  expect([code, stdout, stderr]).toEqual([2, "", containing(message)])
  expect(stderr).toMatch(/^(ork: [^\n]+\n)+$/)
})
