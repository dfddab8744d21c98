import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { checkTree } from "./check-imports.ts"

const tree = (files: Record<string, string>): string => {
  const root = mkdtempSync(join(tmpdir(), "ork-imports-"))
  onTestFinished(() => rmSync(root, { recursive: true }))
  for (const [name, source] of Object.entries(files)) {
    mkdirSync(dirname(join(root, "src", name)), { recursive: true })
    writeFileSync(join(root, "src", name), source)
  }
  return root
}

test("imports that point down the order are fine", () => {
  const root = tree({
    "engine/loop.ts":
      'import type { Store } from "../store/contract/store.ts"\nimport { decide } from "../core/rules/decide.ts"\n',
    "main.ts": 'import { SqliteStore } from "./store/sqlite/store.ts"\n',
    "sdk/start-worker.ts": 'import { FileObjectStore } from "../objects/file/file.ts"\n',
    "store/sqlite/store.ts": 'import type { Store } from "../store.ts"\nimport { readFileSync } from "node:fs"\n',
  })
  expect(checkTree(root)).toEqual([])
})

test.each([
  ["core/rules/decide.ts", 'import { loop } from "../../engine/loop.ts"', "core must not import engine"],
  ["store/sqlite/a.ts", 'import { b } from "../../objects/objects.ts"', "store must not import objects"],
  ["engine/a.ts", 'export * from "../cli/run.ts"', "engine must not import cli"],
  ["engine/a.ts", 'const cli = await import("../cli/run.ts")', "engine must not import cli"],
  ["engine/a.ts", 'import {\n  a,\n  b,\n} from "../api/http/server.ts"', "engine must not import api"],
  ["engine/a.ts", 'import { SqliteStore } from "../store/sqlite/store.ts"', "only src/main.ts names backends"],
  ["sdk/index.ts", 'import { FileObjectStore } from "../objects/file/file.ts"', "only src/main.ts names backends"],
  ["cli/a.ts", 'import { ProcessExecutor } from "../executors/process.ts"', "only src/main.ts names backends"],
  ["odd/a.ts", 'import { a } from "../core/a.ts"', "odd has no place"],
  ["core/a.ts", 'import { readFileSync } from "node:fs"', "core must not import node:fs"],
  ["core/a.ts", "export const now = () => Date.now()", "reads a clock"],
  ["core/a.ts", "export const dice = Math.random()", "makes randomness"],
  ["core/a.ts", "setTimeout(() => {}, 1)", "sets a timer"],
  ["core/a.ts", "export const f = async () => 1", "is asynchronous"],
])("in %s, `%s` is reported", (file, source, problem) => {
  const problems = checkTree(tree({ [file]: `${source}\n` }))
  expect(problems).toHaveLength(1)
  expect(problems[0]).toContain(problem)
  expect(problems[0]).toContain(`src/${file}`)
})

test("words in comments and strings of core are no impurity", () => {
  const source = '// await nobody\n/**\n * async, Date.now\n */\nexport const word = "await" // Math.random\n'
  expect(checkTree(tree({ "core/a.ts": source }))).toEqual([])
})

test("tests may import what they like", () => {
  const source = 'import { SqliteStore } from "../store/sqlite/store.ts"\n'
  expect(checkTree(tree({ "engine/a.test.ts": source, "core/a.test.ts": source, "engine/testing/a.ts": source }))).toEqual([])
})
