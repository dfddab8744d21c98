// Every code block of the documentation is checked: definitions compile, settings are accepted, programs compile, scripts name commands
// and options that exist. docs.test.ts runs the workflows of the guide and the tutorial.

import { execFile, execFileSync } from "node:child_process"
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { promisify } from "node:util"
import { expect, test } from "vitest"
import { parse } from "yaml"
import { checkCase } from "../src/cli/cases/check-case.ts"
import { readCases } from "../src/cli/cases/read-cases.ts"
import { runCase } from "../src/cli/cases/run-case.ts"
import { resolveConfig, SETTINGS } from "../src/config.ts"
import { parseDefinition, parseValue, type ParsedDefinition } from "../src/definition/parse.ts"
import { workflowSchema } from "../src/definition/workflow-schema.ts"
import { type CodeBlock, codeBlocks, DOCUMENTS, FENCE } from "./support/code-blocks.ts"
import { wrongCalls } from "./support/documented-commands.ts"
import { REPO, temporaryFolder } from "./support/ork.ts"

const blocks = codeBlocks()
const inLanguage = (...languages: string[]): CodeBlock[] => blocks.filter(({ language }) => languages.includes(language))

/** Languages that the tests below check, and those without a check. */
const CHECKED = ["yaml", "json", "ts", "python", "sh", "bash", "console"]
const UNCHECKED = {
  text: "output and drawings",
  mermaid: "drawings, which GitHub renders",
  sql: "test/sdk/other-languages.slow.test.ts runs it with psql",
  nginx: "configuration of another program",
  crontab: "input of `ork import`, which the tests of src/import cover",
}

test("every code block names its language", () => {
  const known = [...CHECKED, ...Object.keys(UNCHECKED)]
  expect(
    blocks.filter(({ language }) => !known.includes(language)).map(({ place, language }) => `${place} ${language}`),
  ).toEqual([])
  expect(blocks.length).toBeGreaterThan(80)
})

// -- YAML and JSON -----------------------------------------------------------------------------------------------------------------

/** Keys of files of other programs, and of the output that defers work. */
const FOREIGN = ["groups", "scrape_configs", "apiVersion", "services", "mcpServers", "Statement", "ork_defer"]
const SETTING_KEYS: readonly string[] = Object.values(SETTINGS).map(({ key }) => key)
const WORKFLOW_KEYS = Object.keys(workflowSchema.shape)

const isSettings = (value: object): boolean => Object.keys(value).every((key) => SETTING_KEYS.includes(key))

/** Parses a definition, or a part of one: some fields of a workflow, or the fields of a task. */
const parsePart = (text: string): ParsedDefinition => {
  const value = parse(text) as Record<string, unknown>
  if ("name" in value || "id" in value) return parseDefinition(text)
  const isTask = !Object.keys(value).every((key) => WORKFLOW_KEYS.includes(key))
  return parseValue({ name: "part", tasks: { task: isTask ? value : { command: "true" } }, ...(isTask ? {} : value) })
}

const problemsOf = (text: string): unknown => {
  const value = parse(text) as Record<string, unknown>
  if (FOREIGN.some((key) => key in value)) return []
  if (isSettings(value)) {
    const resolved = resolveConfig({ flags: {}, env: {}, file: value, machine: { cores: 2 } })
    return "problems" in resolved ? resolved.problems : []
  }
  const parsed = parsePart(text)
  return parsed.ok ? [] : parsed.problems
}

test.each(inLanguage("yaml", "json").filter(({ text }) => !/^cases:/m.test(text)))("$place is valid", ({ text, language }) => {
  if (language === "json") JSON.parse(text)
  expect(problemsOf(text)).toEqual([])
})

/** Writes the examples, and the workflows of a page, to a folder. */
const writeWorkflows = (folder: string, file: string): void => {
  cpSync(join(REPO, "examples"), folder, { recursive: true })
  for (const block of inLanguage("yaml").filter((each) => each.file === file)) {
    const name = /^name: (\S+)$/m.exec(block.text)?.[1]
    if (name !== undefined) writeFileSync(join(folder, `${name}.yaml`), block.text)
  }
}

test.each(inLanguage("yaml").filter(({ text }) => /^cases:/m.test(text)))(
  "the cases of $place pass",
  async ({ file, text }) => {
    const folder = temporaryFolder()
    const name = /^# (\S+\.ork-test\.yaml)$/m.exec(text)![1]!
    writeWorkflows(folder, file)
    writeFileSync(join(folder, name), text)
    const found = await readCases(folder, name)
    for (const each of found.cases) {
      expect(checkCase(found.workflow, each.expect, await runCase(found, each))).toEqual([])
    }
  },
)

// -- programs ----------------------------------------------------------------------------------------------------------------------

const exportsOf = (text: string): string[] => [...text.matchAll(/^export const (\w+)/gm)].map(([, name]) => name!)

/** Writes the programs of a page to a folder. A program may use what an earlier one of its page exports. */
const writePrograms = (folder: string, programs: readonly CodeBlock[]): string[] =>
  programs.map(({ text }, i) => {
    const name = /^\/\/ (\S+\.ts)$/m.exec(text.slice(0, text.indexOf("\n")))?.[1] ?? `program-${i}.ts`
    const imports = programs.slice(0, i).flatMap(({ text: earlier }, j) => {
      const used = exportsOf(earlier).filter(
        (each) => new RegExp(`\\b${each}\\b`).test(text) && !text.includes(`const ${each} `),
      )
      return used.length === 0 ? [] : [`import { ${used.join(", ")} } from "./program-${j}.ts"\n`]
    })
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), imports.join("") + text)
    return join(basename(folder), name)
  })

test("the programs in TypeScript compile", { timeout: 120_000 }, async () => {
  const cwd = temporaryFolder()
  symlinkSync(join(REPO, "node_modules"), join(cwd, "node_modules"))
  const programs = inLanguage("ts")
  const files = [...new Set(programs.map(({ file }) => file))].flatMap((file, i) => {
    const folder = join(cwd, `page-${i}`)
    mkdirSync(folder)
    return writePrograms(
      folder,
      programs.filter((program) => program.file === file),
    )
  })
  expect(files.length).toBeGreaterThan(10)
  const compilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: "es2024",
    lib: ["es2024", "esnext.disposable", "dom"],
    module: "nodenext",
    allowImportingTsExtensions: true,
    types: ["node"],
    paths: Object.fromEntries(
      ["index", "client", "test", "tx"].map((name) => [
        name === "index" ? "ork" : `ork/${name}`,
        [join(REPO, `dist/sdk/${name}.d.ts`)],
      ]),
    ),
  }
  writeFileSync(join(cwd, "tsconfig.json"), JSON.stringify({ compilerOptions, files }))
  writeFileSync(join(cwd, "package.json"), JSON.stringify({ type: "module" }))
  const compiler = join(REPO, "node_modules/typescript/bin/tsc")
  const { stdout } = await promisify(execFile)(process.execPath, [compiler, "-p", cwd]).catch(
    (error: { stdout: string }) => error,
  )
  expect(stdout).toBe("")
})

test("the programs in Python have no syntax errors", () => {
  const check = "import ast, json, sys\nfor name, text in json.load(sys.stdin): ast.parse(text, name)"
  const programs = inLanguage("python").map(({ place, text }) => [place, text])
  execFileSync("python3", ["-c", check], { input: JSON.stringify(programs), stdio: ["pipe", "pipe", "pipe"] })
})

// -- shell -------------------------------------------------------------------------------------------------------------------------

/** Returns what a user types: lines after a prompt, or everything in a block without output. */
const typed = ({ language, text }: CodeBlock): string =>
  language === "console" ? [...text.matchAll(/^\$ (.*)$/gm)].map(([, line]) => line).join("\n") : text

test.each(inLanguage("sh", "bash", "console"))("the commands of $place exist", (block) => {
  const script = typed(block)
  expect(script).not.toBe("")
  execFileSync("bash", ["-n"], { input: script, stdio: ["pipe", "pipe", "pipe"] })
  expect(wrongCalls(script)).toEqual([])
})

/** Texts in the style of code that look like calls. */
const NO_CALLS = ["ork push workers"]

test("the commands in the text of the documents exist", () => {
  const wrong = DOCUMENTS.flatMap((file) => {
    const text = readFileSync(join(REPO, file), "utf8").replaceAll(FENCE, "")
    const calls = [...text.matchAll(/(?<!`)`(ork [a-z][^`]*)`/g)].map(([, call]) => call!)
    return calls
      .filter((call) => !NO_CALLS.includes(call))
      .flatMap((call) => wrongCalls(call).map((each) => `${file}: ${each}`))
  })
  expect(wrong).toEqual([])
})

test("a wrong command, option or script is found", () => {
  expect(wrongCalls("ork rum etl.yaml")).toEqual(["ork rum etl.yaml: there is no command rum"])
  expect(wrongCalls("A=1 ork run etl.yaml --fast | tee log # --slow")).toEqual([
    "ork run etl.yaml --fast: there is no option --fast",
  ])
  expect(wrongCalls("cd x && ork keys create a --scop read")).toEqual([
    "ork keys create a --scop read: there is no option --scop",
  ])
  expect(wrongCalls("npm run rocket")).toEqual(["npm run rocket: there is no such script"])
  expect(wrongCalls("ork run etl.yaml -p a=b --param 'c=d e'")).toEqual([])
})
