// usage: npm run first-hour [-- --clone]
// Plays the first hour of a user in a fresh folder: imports a crontab, an Airflow file and a Dagu file, deploys them to a server and
// runs all of them; breaks one of each, reads the explanation, and fixes it. Prints a line per step; ends with the counts, and with 1
// if a step failed. `--clone` clones and installs this repository first, and uses that copy.

import { execFileSync } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { expectText, Session } from "./session.ts"
import { withFolder } from "../campaign.ts"

const REPO = join(import.meta.dirname, "../../..")
const INPUT = join(import.meta.dirname, "input")

/** A change that makes a workflow fail, and the text of `ork explain` that tells why. */
interface Fault {
  workflow: string
  file: string
  from: string
  to: string
  explained: string
}

const FAULTS: readonly Fault[] = [
  { workflow: "tar", file: "tar.yaml", from: "/etc/hostname", to: "/etc/no-such-file", explained: "exit code 2" },
  { workflow: "sales", file: "sales_tasks.py", from: "row * 2", to: 'row["amount"] * 2', explained: "not subscriptable" },
  { workflow: "report", file: "report.yaml", from: "echo 3", to: "count-rows", explained: "exit code 127" },
]

const { values: flags } = parseArgs({ options: { clone: { type: "boolean", default: false } } })

const clone = (folder: string): string => {
  const target = join(folder, "ork")
  execFileSync("git", ["clone", "--quiet", REPO, target])
  execFileSync("npm", ["install", "--no-audit", "--no-fund"], { cwd: target, stdio: "ignore" })
  return target
}

await withFolder(async (folder) => {
  const checkout = flags.clone ? clone(folder) : REPO
  await using session = new Session(join(checkout, "bin/ork"), folder)
  const workflows = join(folder, "workflows")
  const edit = (file: string, from: string, to: string): void => {
    const path = join(workflows, file)
    const text = readFileSync(path, "utf8")
    expectText(text, from)
    writeFileSync(path, text.replaceAll(from, to))
  }

  await session.step("import the crontab", () => session.importFile("crontab", join(INPUT, "crontab"), ["--timezone", "UTC"]))
  await session.step("import the Airflow file", () => session.importFile("airflow", join(INPUT, "sales.py")))
  await session.step("import the Dagu file", () =>
    session.importFile("dagu", join(INPUT, "report.yaml"), ["--timezone", "UTC"]),
  )
  await session.step("validate them", () => session.ork(["validate", workflows]))
  await session.step("start a server", () => session.serve())
  await session.step("deploy them", () => session.ork(["deploy", workflows]))
  for (const workflow of session.workflows) await session.step(`run ${workflow}`, () => session.run(workflow))

  await session.step("find a typing error before anything runs", async () => {
    edit("for.yaml", "command:", "comand:")
    expectText(await session.ork(["deploy", workflows], 2), 'did you mean "command"?')
    edit("for.yaml", "comand:", "command:")
    return "explained with line and column"
  })
  for (const { workflow, file, from, to, explained } of FAULTS) {
    await session.step(`break ${workflow}`, async () => {
      edit(file, from, to)
      await session.ork(["deploy", workflows])
      return session.run(workflow, 1)
    })
    await session.step(`explain ${workflow}`, () => session.explain(workflow, explained))
    await session.step(`fix ${workflow}`, async () => {
      edit(file, to, from)
      await session.ork(["deploy", workflows])
      return session.run(workflow)
    })
  }
  console.log(session.summary())
  process.exitCode = session.failures > 0 ? 1 : 0
})
