// `ork export-run` and `ork replay`: a run as one file, and a task of it again, without a server and in an empty folder.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"

const ETL = `name: etl
params: { day: "2026-01-31" }
tasks:
  wait: { executor: sleep, duration: 0 }
  extract:
    depends_on: [wait]
    env: { TOKEN: { secret: API_TOKEN } }
    command: |
      echo "token $TOKEN" >&2
      echo '{"files": ["a.csv", "b.csv"]}'
  region:
    depends_on: [extract]
    foreach: [eu, us]
    tasks:
      load:
        foreach: \${{ tasks.extract.output.files }}
        input: { day: "\${{ params.day }}" }
        retries: 1
        retry: { base_delay: 0s }
        command: |
          cat "$ORK_INPUT"
          echo " loading \${{ item }} of \${{ parent.item }} on \${{ run.date }}"
          test "\${{ item }}" != b.csv || test "\${{ parent.item }}" != us
      after: { depends_on: [load], command: "false" }
  report: { depends_on: [region], command: echo never }
`

let root = ""
let text = ""

const replay = (...args: string[]) => ork(["replay", "run.json", ...args], { cwd: root })

/** Runs the workflow in one folder, and exports the run into another, which contains nothing else. */
beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "ork-replay-test-"))
  const cwd = join(root, "../", `${basename(root)}-source`)
  mkdirSync(cwd)
  writeFileSync(join(cwd, "etl.yaml"), ETL)
  await ork(["run", "etl.yaml"], { cwd, env: { ORK_SECRET_API_TOKEN: "hunter2-and-more" } })
  await ork(["export-run", "latest", "-o", join(root, "run.json")], { cwd })
  rmSync(cwd, { recursive: true })
  text = readFileSync(join(root, "run.json"), "utf8")
}, 120_000)
afterAll(() => rmSync(root, { recursive: true, force: true }))

test("an export has no value of a secret of the workflow, also not where a param contains it", async () => {
  const cwd = temporaryFolder()
  const env = { ORK_SECRET_API_TOKEN: "hunter2-and-more" }
  writeFileSync(
    join(cwd, "w.yaml"),
    `name: w
params: { url: string }
tasks:
  a: { env: { TOKEN: { secret: API_TOKEN } }, command: "true" }
  b: { input: { url: "\${{ params.url }}" }, command: 'cat "$ORK_INPUT"' }
`,
  )
  await ork(["run", "w.yaml", "-p", "url=https://host/?key=hunter2-and-more"], { cwd, env })
  await ork(["export-run", "latest", "-o", "run.json"], { cwd, env })
  const exported = readFileSync(join(cwd, "run.json"), "utf8")
  expect(exported).not.toContain("hunter2")
  expect(JSON.parse(exported)).toMatchObject({
    run: { params: { url: "https://host/?key=***" } },
    tasks: [{ name: "a" }, { name: "b", input: { url: "https://host/?key=***" } }],
  })
})

test("an export has definition, params, inputs, outputs, attempts and logs, and no secrets", () => {
  expect(text).not.toContain("hunter2")
  const run = JSON.parse(text) as { definition: string; run: { params: unknown }; tasks: Record<string, unknown>[] }
  expect(run.definition).toBe(ETL)
  expect(run.run.params).toEqual({ day: "2026-01-31" })
  const find = (name: string, path: string) => run.tasks.find((task) => task["name"] === name && task["path"] === path)!
  expect(find("extract", "")).toMatchObject({
    output: { files: ["a.csv", "b.csv"] },
    logs: [{ attempt: 1, text: 'token ***\n{"files": ["a.csv", "b.csv"]}\n', cut: false }],
  })
  expect(find("region.load", "1.1")).toMatchObject({
    status: "failed",
    input: { item: "b.csv", day: "2026-01-31" },
    attempts: [{ status: "failed" }, { status: "failed", exit_code: 1 }],
    logs: [{ attempt: 1 }, { attempt: 2 }],
  })
})

test("a task runs again in an empty folder with the input that it had, and says what differs", async () => {
  const again = await replay("--task", "region.load[1.1]")
  expect(again.code).toBe(1)
  expect(again.stdout).toMatch(/^\{"item":"b\.csv","day":"2026-01-31"\} loading b\.csv of us on \d{4}-\d\d-\d\d\n$/)
  expect(again.stderr).toContain("ork: replaying region.load[1.1] of etl#1, which was failed, as a new run\n")
  expect(again.stderr).toContain("ork: the export has no files: the task runs in this folder\n")
  expect(again.stderr).toContain("ork: region.load[1.1] is failed, as in the exported run: exit code 1\n")
  expect(again.stderr).not.toContain("the input differs")
})

test("a replay without a secret, and of a task that did not run, is rejected with what to do", async () => {
  const rejected = async (task: string) => (await replay("--task", task)).stderr
  expect(await rejected("extract")).toBe(
    "ork: an export has no secrets, and the task needs API_TOKEN: set ORK_SECRET_API_TOKEN\n",
  )
  expect(await rejected("extrct")).toBe("ork: the run has no task extrct; did you mean extract?\n")
  expect(await rejected("region")).toBe("ork: region is a group; name a task inside it\n")
  expect(await rejected("region.load")).toContain("several instances; select one, such as region.load[0.0]")
  expect(await rejected("report")).toBe("ork: task report did not run: it is skipped\n")
  writeFileSync(join(root, "other.json"), '{"format":"other"}')
  const other = await ork(["replay", "other.json", "--task", "extract"], { cwd: root })
  expect(other.stderr).toContain("other.json is not a run that `ork export-run` wrote: format:")
})

test("the files of a deployed version are part of its export", async () => {
  const cwd = temporaryFolder()
  const server = await startServer([], { cwd })
  writeFileSync(join(cwd, "count.sh"), "#!/bin/sh\nwc -l < data.txt\n", { mode: 0o755 })
  writeFileSync(join(cwd, "data.txt"), "1\n2\n")
  writeFileSync(join(cwd, "count.yaml"), "name: count\ninclude: [data.txt]\ntasks:\n  count: { command: ./count.sh }\n")
  expect(await ork(["deploy", "count.yaml"], { cwd })).toMatchObject({ code: 0 })
  await server.reaches(await server.trigger("count"), "success")
  const elsewhere = temporaryFolder()
  await ork(["export-run", "count", "-o", join(elsewhere, "run.json")], { cwd })
  expect(await ork(["replay", "run.json", "--task", "count"], { cwd: elsewhere })).toMatchObject({ code: 0, stdout: "2\n" })
})

test.each([
  ["without tasks in its workflow", { workflow: {} }, "workflow.nodes"],
  ["with another workflow", { workflow: { nodes: [] } }, "the workflow in the export has no task extract"],
  ["with a bundle of a strange name", { bundle: { hash: "../../x", tar: "" } }, "bundle.hash"],
])("an edited export %s is rejected, and the message says where", async (_what, change, message) => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "run.json"), JSON.stringify({ ...(JSON.parse(text) as object), ...change }))
  const { code, stderr } = await ork(["replay", "run.json", "--task", "extract"], { cwd })
  expect(stderr).toContain(message)
  expect(code).toBe(2)
})
