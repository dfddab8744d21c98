// `ork report`: a run as one HTML page.

import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"

test("a report has the graph, the timeline, and every task with input, output and log, and contains no code of a task", async () => {
  const cwd = temporaryFolder()
  writeFileSync(
    join(cwd, "etl.yaml"),
    `name: etl
tasks:
  extract:
    command: |
      echo '<script>alert(1)</script>'
      echo '{"files": ["a.csv", "b.csv"]}'
  load:
    foreach: extract.files
    command: echo "loading ${"${{ item }}"}"
  check:
    depends_on: [load]
    command: printf 'no \\033[31mrows\\n' >&2; exit 3
`,
  )
  expect(await ork(["run", "etl.yaml"], { cwd })).toMatchObject({ code: 1 })
  expect(await ork(["report", "etl", "-o", "run.html"], { cwd })).toMatchObject({ code: 0, stdout: "wrote run.html\n" })
  const page = readFileSync(join(cwd, "run.html"), "utf8")
  expect(page).toContain('<h1>etl#1 <span class="failed">failed</span></h1>')
  expect(page).toContain("&lt;script&gt;alert(1)&lt;/script&gt;")
  expect(page).not.toMatch(/<script|https?:|\u001b/)
  for (const name of ["extract", "load[0] a.csv", "load[1] b.csv", "check"]) expect(page).toContain(`<summary>${name} <span`)
  expect(page.match(/<rect class="box/g)).toHaveLength(3)
  expect(page.match(/<rect class="(?:success|failed)"/g)).toHaveLength(4)
  expect(page).toMatch(/<details open><summary>check .*exit code 3/s)
})
