// The documentation is correct: workflows in the guides run, links resolve, and the references are complete.

import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { expect, test } from "vitest"
import { SETTINGS } from "../src/config.ts"
import { TASK_VARIABLES } from "../src/core/model/task-variables.ts"
import { codeBlocks, DOCUMENTS } from "./support/code-blocks.ts"
import { ork, orkRun, REPO, temporaryFolder } from "./support/ork.ts"

/** Pages whose workflows run here, and params of workflows. */
const RUN_PAGES = [
  "docs/guide.md",
  "docs/tutorial.md",
  "docs/how-to/python-etl.md",
  "docs/how-to/files.md",
  "docs/airflow-terms.md",
]
const PARAMS: Record<string, string[]> = { greet: ["--param", "name=Ada"] }

const blocks = codeBlocks()
const workflows = blocks
  .filter(({ file, language }) => RUN_PAGES.includes(file) && language === "yaml")
  .flatMap(({ file, text }) => {
    const name = /^(?:# .*\n)?name: (\S+)$/m.exec(text)?.[1]
    return name === undefined ? [] : [{ file, name, text }]
  })

test("the pages contain workflows", () => {
  expect(workflows.length).toBeGreaterThan(20)
})

/** Workflows that need a component that may be missing here; other tests run similar ones. */
const NEEDS_COMPONENT = /executor: (?:docker|slurm|kubernetes|cloudrun)\b/
const local = workflows.filter(({ text }) => !NEEDS_COMPONENT.test(text))
const notRunnable = workflows.filter(({ text }) => NEEDS_COMPONENT.test(text))

test.each(notRunnable)("the workflow $name of $file is valid", async ({ text }) => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "workflow.yaml"), text)
  const { code, stderr } = await ork(["validate", "workflow.yaml"], { cwd })
  const isOther = (line: string): boolean => !/^ork: warning: .* there is no file \S+ beside the definition/.test(line)
  expect([code, stderr.split("\n").filter(isOther)]).toEqual([0, [""]])
})

/** Writes the files of a page, whose first lines are comments with their names, and some data. */
const writeFiles = (cwd: string, page: string): void => {
  const named = blocks.flatMap(({ file, text }) => {
    const name = file === page ? /^(?:#|\/\/) (\S+\.(?:py|ts))\n/.exec(text)?.[1] : undefined
    return name === undefined ? [] : [{ name, text }]
  })
  for (const { name, text } of [
    ...named,
    { name: "data/eu.csv", text: "a\nb\n" },
    { name: "data/us and more.csv", text: "c\n" },
  ]) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true })
    writeFileSync(join(cwd, name), text)
  }
}

test.each(local)("the workflow $name of $file runs", async ({ file, name, text }) => {
  const cwd = temporaryFolder()
  writeFiles(cwd, file)
  writeFileSync(join(cwd, "workflow.yaml"), text)
  const { code, run, stderr } = await orkRun(["workflow.yaml", ...(PARAMS[name] ?? [])], { cwd })
  expect({ code, status: run.status, stderr }).toEqual({ code: 0, status: "success", stderr: "" })
})

test("the error texts of docs/troubleshooting.md exist", () => {
  const text = readFileSync(join(REPO, "docs/troubleshooting.md"), "utf8")
  const headings = [...text.matchAll(/^### `(.+)`$/gm)].map(([, heading]) => heading!)
  expect(headings.length).toBeGreaterThan(40)
  const source = globSync(["src/**/*.ts", "python/*.py"], { cwd: REPO })
    .filter((file) => !file.endsWith(".test.ts"))
    .map((file) => readFileSync(join(REPO, file), "utf8"))
    .join("\n")
  const parts = headings.flatMap((heading) =>
    heading.split("…").map((part) =>
      part
        .trim()
        .replace(/^[;,:(]+|[(]+$/g, "")
        .trim(),
    ),
  )
  expect(parts.filter((part) => part.length > 3 && !source.includes(part))).toEqual([])
})

test.each(DOCUMENTS)("the links of %s resolve", (document) => {
  const text = readFileSync(join(REPO, document), "utf8")
  const targets = [...text.matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g)].map(([, target]) => target!)
  expect(targets.filter((target) => !existsSync(join(REPO, dirname(document), target)))).toEqual([])
})

test.each(DOCUMENTS)("the source files that %s names exist", (document) => {
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
  const below = (text: string): string[] => [...text.matchAll(/^ {2}([a-z][a-z-]*) .*/gm)].map(([, name]) => name!)
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

test.each(globSync("docs/decisions/*.md", { cwd: REPO }))("%s is one page with decision, reason and alternatives", (file) => {
  const text = readFileSync(join(REPO, file), "utf8")
  expect(text.split("\n").length).toBeLessThanOrEqual(60)
  expect(["Decision", "Reason", "Alternatives"].filter((part) => !text.includes(`**${part}`))).toEqual([])
})

test("docs/decisions/dependencies.md lists exactly the runtime dependencies", () => {
  const manifest = JSON.parse(readFileSync(join(REPO, "package.json"), "utf8")) as { dependencies: Record<string, string> }
  const text = readFileSync(join(REPO, "docs/decisions/dependencies.md"), "utf8")
  // The first table; the others are about the web UI and the checks.
  const table = text.slice(0, text.indexOf("The web UI"))
  const rows = [...table.matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name!)
  expect(rows.toSorted()).toEqual(Object.keys(manifest.dependencies).toSorted())
})
