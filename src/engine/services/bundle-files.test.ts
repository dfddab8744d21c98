import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { collectBundle, type FilesSource } from "./bundle-files.ts"
import { readTar } from "../../objects/bundles/tar.ts"
import { problemText } from "../../core/model/problems.ts"
import { parseDefinition, parseValue } from "../../definition/parse.ts"

const setup = (files: { [path: string]: string }) => {
  const folder = mkdtempSync(join(tmpdir(), "ork-collect-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

const compiled = (tasks: object, include: string[] = []): FilesSource => {
  const parsed = parseValue({ name: "test", tasks, include })
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return parsed
}

const collect = async (folder: string, tasks: object, include?: string[]) => {
  const collected = await collectBundle(folder, compiled(tasks, include))
  return collected.ok
    ? collected.bundle && readTar(collected.bundle.bytes).map(({ path }) => path)
    : collected.problems.map(({ path, message }) => `${path}: ${message}`)
}

test("the files that tasks name and that include matches are collected, once each", async () => {
  const folder = setup({
    "a.ts": "",
    "jobs/b.py": "",
    "jobs/pkg/c.py": "",
    "lib/x.ts": "",
    "lib/deep/y.ts": "",
    "other.md": "",
  })
  const tasks = {
    a: { executor: "node", file: "./a.ts" },
    b: { executor: "python", file: "jobs/b.py" },
    c: { executor: "python", file: "jobs.pkg.c" },
  }
  const files = ["a.ts", "jobs/b.py", "jobs/pkg/c.py", "lib/deep/y.ts", "lib/x.ts"]
  expect(await collect(folder, tasks, ["lib/**", "*.ts"])).toEqual(files)
})

test("a workflow that names no files has no bundle", async () => {
  expect(await collect(setup({}), { a: { command: "true" } })).toBeNull()
})

test("what is missing, leads out or is too large is told, all at once", async () => {
  const folder = setup({ "big.bin": "x".repeat(17 * 2 ** 20) })
  symlinkSync("/etc/hostname", join(folder, "link.ts"))
  const tasks = {
    a: { executor: "node", file: "missing.ts" },
    b: { executor: "python", file: "some.module" },
    c: { executor: "node", file: "link.ts" },
  }
  expect(await collect(folder, tasks, ["none/*", "big.bin"])).toEqual([
    "tasks.a.file: there is no file missing.ts beside the definition",
    "tasks.b.file: there is no file some.module beside the definition (neither some/module.py nor some/module/__init__.py)",
    "tasks.c.file: link.ts is a link that leads out of the definition's own folder",
    "include.0: matches no file beside the definition",
    "include.1: big.bin makes the files of the workflow larger than 16 MiB together: keep data elsewhere",
  ])
})

/** Returns the files of the bundle, and the warnings as lines. */
const collectText = async (folder: string, text: string): Promise<{ files: string[]; warnings: string[] }> => {
  const parsed = parseDefinition(text)
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  const collected = await collectBundle(folder, parsed)
  if (!collected.ok) throw new Error(JSON.stringify(collected.problems))
  return { files: collected.paths, warnings: collected.warnings.map((warning) => problemText(warning)) }
}

const FILES = Object.fromEntries(
  [
    "scripts/x.sh",
    "load.py",
    "query.sql",
    "conf/a.yml",
    "in.csv",
    "body.json",
    "bin/greet",
    "sub/run.sh",
    "jobs/eu.py",
    "jobs/us.py",
    "data/1.csv",
    ".ork/ork.db",
    "unused.sh",
  ].map((path) => [path, "x"]),
)

test.each([
  ["./scripts/x.sh 1 2", ["scripts/x.sh"]],
  ["set -u; A=1 scripts/x.sh && python3 load.py --day=1", ["load.py", "scripts/x.sh"]],
  ["timeout 5 ./scripts/x.sh | tee out", ["scripts/x.sh"]],
  ["psql -f query.sql --config=conf/a.yml < in.csv", ["conf/a.yml", "in.csv", "query.sql"]],
  ["curl -d @body.json http://example.com/load.py", ["body.json"]],
  ['python3 "jobs/${{ params.region }}.py"', ["jobs/eu.py", "jobs/us.py"]],
  ["cd sub && ./run.sh && ./other.sh", ["sub/run.sh"]],
  ["cat .ork/ork.db; rm in.csv; echo query.sql; test -f load.py; missing in.txt", []],
])("the existing files that the command %j names are collected", async (command, expected) => {
  const text = `name: w\nparams: { region: eu }\ntasks:\n  a:\n    command: ${JSON.stringify(command)}`
  expect(await collectText(setup(FILES), text)).toEqual({ files: expected, warnings: [] })
})

test("files of argument lists, of a working folder, of script_dir and of defaults are collected", async () => {
  const folder = setup(FILES)
  const tasks =
    "a: { command: [python3, load.py] }, b: { working_dir: sub, command: ./run.sh }, c: { script_dir: bin, command: greet }, d: {}"
  const text = `name: w\ndefaults: { command: ./scripts/x.sh }\ntasks: { ${tasks} }`
  expect(await collectText(folder, text)).toEqual({
    files: ["bin/greet", "load.py", "scripts/x.sh", "sub/run.sh"],
    warnings: [],
  })
})

test("a file that a command names and that is not in the bundle is a warning with its line and column", async () => {
  const folder = setup({ ...FILES, "big.bin": "x".repeat(17 * 2 ** 20) })
  writeFileSync(join(folder, "../outside.sh"), "")
  onTestFinished(() => rmSync(join(folder, "../outside.sh")))
  const warningsOf = async (command: string, rest = ""): Promise<string[]> =>
    (await collectText(folder, `name: w\n${rest}\ntasks:\n  a:\n    command: ${command}`)).warnings
  expect(await warningsOf("./scripts/missing.sh")).toEqual([
    "5:14: tasks.a.command: there is no file scripts/missing.sh beside the definition; on a server, the task will not find it",
  ])
  expect(await warningsOf("[bash, gone.sh]")).toEqual([
    expect.stringContaining("5:5: tasks.a.command: there is no file gone.sh"),
  ])
  expect(await warningsOf("../outside.sh")).toEqual([
    expect.stringContaining("../outside.sh lies outside the definition's own folder"),
  ])
  expect(await warningsOf("cat big.bin")).toEqual([expect.stringContaining("larger than 16 MiB")])
  expect(await warningsOf("cat data/*.csv")).toEqual([expect.stringContaining('add include: ["data/*.csv"]')])
  expect(await warningsOf("pytest ./data")).toEqual([expect.stringContaining('add include: ["data/**"]')])
  expect(await warningsOf("pytest data/")).toEqual([expect.stringContaining('add include: ["data/**"]')])
  expect(await warningsOf("pytest ./data", "include: [data/1.csv]")).toEqual([])
  expect(await warningsOf("pytest data")).toEqual([])
  expect(await warningsOf("make all\n    working_dir: conf")).toEqual([
    expect.stringContaining(
      '6:18: tasks.a.working_dir: the files of conf will not be there on a server; add include: ["conf/**"]',
    ),
  ])
  expect(await warningsOf("cat data/*.csv", "include: [data/**]")).toEqual([])
  expect(await warningsOf("cd conf && make")).toEqual([expect.stringContaining('add include: ["conf/**"]')])
  expect(await warningsOf("mkdir -p data && cd data && ./x.sh")).toEqual([])
  expect(await warningsOf("ls /etc/passwd ~/x.sh $HOME/y.sh ./out.txt")).toEqual([])
})
