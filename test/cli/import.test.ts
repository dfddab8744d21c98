// `ork import`: files of other tools become definitions that are valid and run.

import { readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"

const CRONTAB = `# Greets somebody
0 6 * * * echo "hello from cron" > greeting
*/5 * * * * cd /tmp && true; false; true
@reboot /opt/start.sh
`

test("an imported crontab is valid, runs as under cron, and reports the line that was not converted", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "crontab"), CRONTAB)
  const imported = await ork(["import", "crontab", "crontab", "--out", "flows", "--timezone", "Europe/Berlin"], {
    cwd,
    env: { HOME: cwd },
  })
  expect(imported.code).toBe(1)
  expect(imported.stdout.split("\n").filter((line) => line !== "")).toEqual([
    "crontab:2: flows/echo.yaml",
    "crontab:3: flows/true.yaml",
    "crontab:4: problem: @reboot is not a schedule; start such a program as a service",
  ])
  expect(await ork(["validate", "flows"], { cwd })).toMatchObject({ code: 0 })
  expect(await ork(["run", "flows/echo.yaml"], { cwd })).toMatchObject({ code: 0 })
  expect(readFileSync(join(cwd, "greeting"), "utf8")).toBe("hello from cron\n")
  // Like cron, the shell goes on after a command that fails.
  expect(await ork(["run", "flows/true.yaml"], { cwd })).toMatchObject({ code: 0 })
})

test("an import replaces no file, and a plan writes none", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "crontab"), "0 6 * * * echo hello\n0 7 * * * date\n")
  expect(await ork(["import", "crontab", "crontab", "--plan"], { cwd })).toMatchObject({ code: 0 })
  writeFileSync(join(cwd, "date.yaml"), "mine\n")
  const { code, stderr } = await ork(["import", "crontab", "crontab"], { cwd })
  expect({ code, stderr }).toMatchObject({ code: 2, stderr: expect.stringContaining("these files exist: date.yaml") })
  expect(readdirSync(cwd).toSorted()).toEqual(["crontab", "date.yaml"])
})

test("an imported Dagu file runs", async () => {
  const cwd = temporaryFolder()
  writeFileSync(
    join(cwd, "etl.yaml"),
    `params: WHO=Ada
steps:
  - name: count
    command: echo 3
    output: ROWS
  - name: report
    command: echo "$ROWS rows for $WHO" > report.txt
    depends: count
`,
  )
  expect(await ork(["import", "dagu", "etl.yaml", "--out", "flows"], { cwd })).toMatchObject({ code: 0 })
  expect(await ork(["run", "flows/etl.yaml"], { cwd })).toMatchObject({ code: 0 })
  expect(readFileSync(join(cwd, "flows", "report.txt"), "utf8")).toBe("3 rows for Ada\n")
})

test("functions of an Airflow file get their arguments by name", async () => {
  const cwd = temporaryFolder()
  const dag = `from airflow.decorators import dag, task
@dag(schedule=None)
def totals():
    @task
    def extract():
        return [1, 2, 3]
    @task
    def double(row):
        return row * 2
    @task
    def total(rows, unit="cents"):
        print("total", sum(rows), unit)
    total(double.expand(row=extract()))
totals()
`
  writeFileSync(join(cwd, "totals.py"), dag)
  expect(await ork(["import", "airflow", "totals.py"], { cwd })).toMatchObject({ code: 0 })
  expect((await ork(["run", "totals.yaml"], { cwd })).stderr).toBe("")
  expect((await ork(["logs", "latest", "total"], { cwd })).stdout).toBe("total 12 cents\n")
})
