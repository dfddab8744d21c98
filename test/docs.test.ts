// The documentation is correct: workflows in the guide run, links resolve, and the references are complete.

import { execFile } from "node:child_process"
import { existsSync, globSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { promisify } from "node:util"
import { expect, test } from "vitest"
import type { ZodObject } from "zod"
import { SETTINGS } from "../src/config.ts"
import { TASK_VARIABLES } from "../src/core/model/task-variables.ts"
import { taskSchema, workflowSchema } from "../src/definition/workflow-schema.ts"
import { ork, orkRun, REPO, temporaryFolder } from "./support/ork.ts"

const GUIDE = readFileSync(join(REPO, "docs/guide.md"), "utf8")
const PARAMS: Record<string, string[]> = { greet: ["--param", "name=Ada"] }

const workflows = [...GUIDE.matchAll(/```yaml\n(name: (\S+)\n[\s\S]*?)```/g)].map(([, text, name]) => ({
  name: name!,
  text: text!,
}))

test("the guide contains workflows", () => {
  expect(workflows.length).toBeGreaterThan(8)
})

/** Workflows that need a component that may be missing here; other tests run similar ones. */
const NEEDS_COMPONENT = /executor: (?:docker|slurm|kubernetes|cloudrun)\b/
const local = workflows.filter(({ text }) => !NEEDS_COMPONENT.test(text))
const notRunnable = workflows.filter(({ text }) => NEEDS_COMPONENT.test(text))

test.each(notRunnable)("the guide's workflow $name is valid", async ({ text }) => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "workflow.yaml"), text)
  const { code, stderr } = await ork(["validate", "workflow.yaml"], { cwd })
  const isOther = (line: string): boolean => !/^ork: warning: .* there is no file \S+ beside the definition/.test(line)
  expect([code, stderr.split("\n").filter(isOther)]).toEqual([0, [""]])
})

test.each(local)("the guide's workflow $name runs", async ({ name, text }) => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "workflow.yaml"), text)
  const { code, run, stderr } = await orkRun(["workflow.yaml", ...(PARAMS[name] ?? [])], { cwd })
  expect({ code, status: run.status, stderr }).toEqual({ code: 0, status: "success", stderr: "" })
})

const migrations = globSync("docs/migrate/*.md", { cwd: REPO }).map((file) => ({
  file,
  text: readFileSync(join(REPO, file), "utf8"),
}))
const migrationWorkflows = migrations.flatMap(({ file, text }) =>
  [...text.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, definition]) => ({ file, definition: definition! })),
)

test.each(migrationWorkflows)("the workflow in $file is valid", async ({ definition }) => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "workflow.yaml"), definition)
  expect(await ork(["validate", "workflow.yaml"], { cwd })).toMatchObject({ code: 0 })
})

test("the programs in docs/migrate compile", { timeout: 60_000 }, async () => {
  const cwd = temporaryFolder()
  symlinkSync(join(REPO, "node_modules"), join(cwd, "node_modules"))
  const programs = migrations.flatMap(({ file, text }) =>
    [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, program], i) => ({
      name: `${basename(file, ".md")}-${i}.ts`,
      program: program!,
    })),
  )
  expect(programs.length).toBeGreaterThan(1)
  for (const { name, program } of programs) writeFileSync(join(cwd, name), program)
  const compilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: "es2024",
    module: "nodenext",
    types: ["node"],
    paths: { ork: [join(REPO, "dist/sdk/index.d.ts")] },
  }
  writeFileSync(join(cwd, "tsconfig.json"), JSON.stringify({ compilerOptions, files: programs.map(({ name }) => name) }))
  writeFileSync(join(cwd, "package.json"), JSON.stringify({ type: "module" }))
  const { stdout } = await promisify(execFile)(process.execPath, [
    join(REPO, "node_modules/typescript/bin/tsc"),
    "-p",
    cwd,
  ]).catch((error: { stdout: string }) => error)
  expect(stdout).toBe("")
})

const documents = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", ...globSync("docs/**/*.md", { cwd: REPO })]

test.each(documents)("the links of %s resolve", (document) => {
  const text = readFileSync(join(REPO, document), "utf8")
  const targets = [...text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)].map(([, target]) => target!)
  expect(targets.filter((target) => !existsSync(join(REPO, dirname(document), target)))).toEqual([])
})

test.each(documents)("the source files that %s names exist", (document) => {
  const text = readFileSync(join(REPO, document), "utf8")
  const paths = [...text.matchAll(/`((?:src|ui|test|native|python|bench|deploy|scripts|examples)\/[\w./-]+)`/g)].map(
    ([, path]) => path!,
  )
  expect(paths.filter((path) => !existsSync(join(REPO, path)))).toEqual([])
})

test("docs/architecture.md names functions that its source files contain", () => {
  const text = readFileSync(join(REPO, "docs/architecture.md"), "utf8")
  const pairs = [...text.matchAll(/`(?:\w+\.)?#?(\w+)` in `(src\/[\w./-]+\.ts)`/g)].map(([, name, path]) => ({
    name: name!,
    path: path!,
  }))
  expect(pairs.length).toBeGreaterThan(5)
  expect(pairs.filter(({ name, path }) => !readFileSync(join(REPO, path), "utf8").includes(name))).toEqual([])
})

const advisories = readFileSync(join(REPO, "docs/advisories.md"), "utf8")
  .split("\n")
  .filter((line) => /^\| (?:CVE|GHSA)-/.test(line))
  .map((line) => {
    const [, id, , , , evidence] = line.split("|").map((cell) => cell.trim())
    const [, file, name] = /^`([^`]+)`: (.+)$/.exec(evidence ?? "") ?? []
    return { id: id!, file, name }
  })

test("docs/advisories.md lists at least 40 advisories, each once", () => {
  const ids = advisories.map(({ id }) => id)
  expect(ids.filter((id) => !/^(?:CVE-\d{4}-\d{4,}|GHSA(?:-[0-9a-z]{4}){3})$/.test(id))).toEqual([])
  expect(ids.filter((id, i) => ids.indexOf(id) !== i)).toEqual([])
  expect(ids.length).toBeGreaterThanOrEqual(40)
})

test("the tests that docs/advisories.md names exist", () => {
  const missing = advisories.filter(({ file, name }) => {
    if (file === undefined || name === undefined || !existsSync(join(REPO, file))) return true
    const text = readFileSync(join(REPO, file), "utf8")
    // A name is a whole literal, or the beginning of a template.
    return ![`"${name}"`, `'${name}'`, `\`${name} (`].some((literal) => text.includes(literal))
  })
  expect(missing).toEqual([])
})

test("docs/operations.md lists every setting", () => {
  const text = readFileSync(join(REPO, "docs/operations.md"), "utf8")
  const rows = Object.values(SETTINGS).map(({ key, about }) => ({
    start: `| \`ORK_${key.toUpperCase()}\``,
    key: `\`${key}\``,
    about,
  }))
  const missing = rows.filter(
    ({ start, key, about }) =>
      !text.split("\n").some((line) => line.startsWith(start) && line.includes(key) && line.includes(about)),
  )
  expect(missing).toEqual([])
})

test("docs/guide.md lists every variable that Ork sets for tasks", () => {
  const text = readFileSync(join(REPO, "docs/guide.md"), "utf8")
  // For Ork's own use.
  const documented = TASK_VARIABLES.filter((name) => name !== "ORK_OWNER")
  expect(documented.filter((name) => !new RegExp(`\\b${name}\\b`).test(text))).toEqual([])
})

test.each([
  ["Workflow", workflowSchema],
  ["Task", taskSchema],
])("docs/reference/definition.md lists every field of the %s schema", (heading, schema) => {
  const text = readFileSync(join(REPO, "docs/reference/definition.md"), "utf8")
  const section = text.split(/^## /m).find((part) => part.startsWith(heading)) ?? ""
  expect(Object.keys((schema as ZodObject).shape).filter((field) => !section.includes(`\`${field}\``))).toEqual([])
})

test("docs/reference/cli.md lists exactly the commands and options that `--help` shows", async () => {
  const text = readFileSync(join(REPO, "docs/reference/cli.md"), "utf8")
  const sections = new Map(
    text
      .split(/^## ork /m)
      .slice(1)
      .map((part) => [part.slice(0, part.indexOf("\n")), part]),
  )
  const cwd = temporaryFolder()
  const help = async (...args: string[]): Promise<string> => (await ork([...args, "--help"], { cwd })).stdout
  const below = (text: string): string[] => [...text.matchAll(/^ {2}([a-z]+) .*/gm)].map(([, name]) => name!)
  const listed = (text: string): string[] => below(text.split(/^Commands:/m)[1] ?? "")
  const commands = below((await help()).split(/^Runs:/m)[1]!)
  expect([...sections.keys()].toSorted()).toEqual(commands.toSorted())
  const options = (found: string): string[] =>
    [...new Set(found.match(/--[a-z][a-z-]+/g))].filter((o) => o !== "--help").toSorted()
  const shownBy = async (...words: string[]): Promise<string> => {
    const text = await help(...words)
    const own = text.split(/^Options:/m)[1]?.split(/^(?:Commands|Examples):/m)[0] ?? ""
    const others = await Promise.all(listed(text).map((name) => shownBy(...words, name)))
    return [own, ...others].join("\n")
  }
  for (const command of commands) {
    expect({ command, options: options(sections.get(command)!) }).toEqual({ command, options: options(await shownBy(command)) })
  }
})

test("docs/decisions/dependencies.md lists exactly the runtime dependencies", () => {
  const manifest = JSON.parse(readFileSync(join(REPO, "package.json"), "utf8")) as { dependencies: Record<string, string> }
  const text = readFileSync(join(REPO, "docs/decisions/dependencies.md"), "utf8")
  // The first table; the others are about the web UI and the checks.
  const table = text.slice(0, text.indexOf("The web UI"))
  const rows = [...table.matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name!)
  expect(rows.toSorted()).toEqual(Object.keys(manifest.dependencies).toSorted())
})
