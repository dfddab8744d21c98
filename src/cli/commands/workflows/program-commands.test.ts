import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it, onTestFinished } from "vitest"
import { parseDefinition } from "../../../definition/parse.ts"
import { type CommandResult, runMain } from "../../testing/command-line.ts"

const SDK = join(import.meta.dirname, "../../../sdk/index.ts")

const setup = async () => {
  const cwd = await mkdtemp(join(tmpdir(), "ork-program-"))
  onTestFinished(() => rm(cwd, { recursive: true }))
  return {
    file: (name: string, text: string) => writeFile(join(cwd, name), text),
    read: (name: string) => readFile(join(cwd, name), "utf8"),
    ork: (...args: string[]): Promise<CommandResult> => runMain(args, { cwd, env: {} }),
  }
}

const GRAPHS = `
import { graph, task } from ${JSON.stringify(SDK)}
const load = task("load", { retry: { attempts: 2 } }, () => 1)
export const one = graph("one", {}, (g) => g.each("load", [1, 2], load, (item) => ({ text: g.text\`item \${item}\` })))
export const two = graph("two", {}, (g) => { g.define("hello", { command: "echo hello" }) })
export const again = one
export const other = 1
`

it("export prints the graphs of a file as YAML, and writes them to a folder", async () => {
  const { ork, file, read } = await setup()
  await file("graphs.ts", GRAPHS)
  const one = `name: one
tasks:
  load:
    foreach:
      - 1
      - 2
    executor: node
    function: load
    retry:
      max_attempts: 2
    input:
      text: item \${{ item }}
`
  const two = "name: two\ntasks:\n  hello:\n    command: echo hello\n"
  expect(await ork("export", "graphs.ts")).toEqual({ code: 0, stdout: `${one}---\n${two}`, stderr: "" })
  expect((await ork("export", "graphs.ts", "--out", "flows")).stdout).toBe("wrote flows/one.yaml\nwrote flows/two.yaml\n")
  expect(parseDefinition(await read("flows/one.yaml")).ok).toBe(true)
})

it("export names what is wrong with a file", async () => {
  const { ork, file } = await setup()
  await file("empty.ts", "export const x = 1")
  await file("throws.ts", "throw new Error('no')")
  await file("bad.ts", `import { graph } from ${JSON.stringify(SDK)}\nexport const bad = graph("bad", {}, () => undefined)`)
  expect((await ork("export", "none.ts")).stderr).toBe("ork: none.ts: there is no such file\n")
  expect((await ork("export", "empty.ts")).stderr).toContain("empty.ts exports no graph")
  expect((await ork("export", "throws.ts")).stderr).toBe("ork: throws.ts cannot be loaded: no\n")
  expect(await ork("export", "bad.ts")).toMatchObject({ code: 2, stderr: expect.stringContaining("the workflow has no tasks") })
})

it("types declares the params of workflow files", async () => {
  const { ork, file, read } = await setup()
  await file(
    "a.yaml",
    `
name: a
params:
  day: { type: date, required: true, description: Day to load }
  size: { enum: [s, m] }
  tags: { type: array, items: { type: string }, default: [] }
  options: { type: object, properties: { deep: { type: boolean }, n: { type: integer } }, required: [n] }
tasks: { x: { command: "true" } }
`,
  )
  await file("b.yaml", 'name: b\ntasks: { x: { command: "true" } }\n')
  expect(await ork("types", "a.yaml", "b.yaml")).toEqual({
    code: 0,
    stdout: "wrote ork-workflows.d.ts for 2 workflows\n",
    stderr: "",
  })
  expect(await read("ork-workflows.d.ts")).toBe(`// Written by \`ork types\`: the params of workflow files, for \`yaml\`.
import type {} from "ork"

declare module "ork" {
  interface YamlWorkflows {
    "a.yaml": {
      params: {
        /** Day to load */
        day: string
        size?: "s" | "m" | null
        tags?: readonly (string)[] | null
        options?: { deep?: boolean; n: number } | null
      }
    }
    "b.yaml": { params: { [name: string]: never } }
  }
}
`)
})

it("init and import write to an absolute folder", async () => {
  const { ork, file } = await setup()
  const elsewhere = await mkdtemp(join(tmpdir(), "ork-elsewhere-"))
  onTestFinished(() => rm(elsewhere, { recursive: true }))
  await file("crontab", "0 2 * * * echo hello\n")
  await ork("init", join(elsewhere, "first"))
  await ork("import", "crontab", "crontab", "--out", join(elsewhere, "flows"))
  expect(await readFile(join(elsewhere, "first/hello.yaml"), "utf8")).toContain("name: hello")
  expect(await readFile(join(elsewhere, "flows/echo.yaml"), "utf8")).toContain("name: echo")
})
