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

function expectProblem(file: string, source: string, problem: string): void {
  const problems = checkTree(tree({ [file]: `${source}\n` }))
  expect(problems).toHaveLength(1)
  expect(problems[0]).toContain(problem)
  expect(problems[0]).toContain(`src/${file}`)
}

test("a file may import lower layers", () => {
  const root = tree({
    "engine/loop/loop.ts":
      'import type { Store } from "../../store/contract/store.ts"\nimport { decide } from "../../core/rules/changes/decide.ts"\n',
    "engine/engine.ts": 'import { Gate } from "./gate/gate.ts"\nimport { Loop } from "./loop/loop.ts"\n',
    "backends.ts": 'import { SqliteStore } from "./store/sqlite/sqlite.ts"\n',
    "sdk/start-worker.ts": 'import { FileObjectStore } from "../objects/file/file.ts"\n',
    "store/sqlite/runs/retry.ts":
      'import type { Store } from "../../contract/store.ts"\nimport { unblock } from "../advance/unblock.ts"\nimport { readFileSync } from "node:fs"\n',
  })
  expect(checkTree(root)).toEqual([])
})

test.each([
  ["core/rules/changes/a.ts", 'import { loop } from "../../../engine/loop.ts"', "core must not import engine"],
  ["store/sqlite/a.ts", 'import { b } from "../../objects/objects.ts"', "store must not import objects"],
  ["engine/ports.ts", 'export * from "../cli/run.ts"', "engine must not import cli"],
  ["engine/ports.ts", 'const cli = await import("../cli/run.ts")', "engine must not import cli"],
  ["engine/ports.ts", 'import {\n  a,\n  b,\n} from "../api/http/server.ts"', "engine must not import api"],
  ["odd/a.ts", 'import { a } from "../core/a.ts"', "has no layer"],
])("of areas, in %s, `%s` is reported", expectProblem)

test.each([
  ["core/model/a.ts", 'import { b } from "../rules/b.ts"', "core/model must not import core/rules"],
  ["core/values/a.ts", 'import { b } from "../model/b.ts"', "core/values must not import core/model"],
  ["core/rules/jobs/a.ts", 'import { b } from "../runs/b.ts"', "core/rules/jobs must not import core/rules/runs"],
  ["core/compile/code/a.ts", 'import { b } from "../task/b.ts"', "core/compile/code must not import core/compile/task"],
  ["core/time/a.ts", 'import { b } from "../routing/b.ts"', "core/time must not import core/routing"],
  ["protocol/api/a.ts", 'import { b } from "../client/b.ts"', "protocol/api must not import protocol/client"],
  ["engine/loop/a.ts", 'import { b } from "../gate/b.ts"', "engine/loop must not import engine/gate"],
  ["engine/gate/a.ts", 'import { b } from "../engine.ts"', "engine/gate must not import engine/engine.ts"],
  ["api/views/a.ts", 'import { b } from "../routes/b.ts"', "api/views must not import api/routes"],
  ["api/routes/a.ts", 'import { b } from "../http/server.ts"', "api/routes must not import api/http/server.ts"],
  ["cli/target/a.ts", 'import { b } from "../commands/b.ts"', "cli/target must not import cli/commands"],
  ["store/shared/a.ts", 'import { b } from "../sqlite/b.ts"', "store/shared must not import store/sqlite"],
  ["store/sqlite/connection/a.ts", 'import { b } from "../claim/b.ts"', "connection must not import store/sqlite/claim"],
  ["store/postgres/schema/a.ts", 'import { b } from "../cache/b.ts"', "schema must not import store/postgres/cache"],
  ["store/postgres/cache/a.ts", 'import { b } from "../runs/b.ts"', "cache must not import store/postgres/runs"],
  ["store/postgres/claim/a.ts", 'import { b } from "../jobs/b.ts"', "claim must not import store/postgres/jobs"],
  ["store/postgres/odd/a.ts", 'import { b } from "../claim/b.ts"', "has no layer"],
])("of subfolders, in %s, `%s` is reported", expectProblem)

test.each([
  ["engine/ports.ts", 'import { SqliteStore } from "../store/sqlite/sqlite.ts"', "may import backends"],
  ["sdk/index.ts", 'import { FileObjectStore } from "../objects/file/file.ts"', "may import backends"],
  ["cli/run/a.ts", 'import { ProcessExecutor } from "../../executors/process.ts"', "may import backends"],
])("of backends, in %s, `%s` is reported", expectProblem)

test.each([
  ["core/model/a.ts", 'import { readFileSync } from "node:fs"', "core must not import node:fs"],
  ["core/model/a.ts", "export const now = () => Date.now()", "must not read a clock"],
  ["core/model/a.ts", "export const dice = Math.random()", "must not use randomness"],
  ["core/model/a.ts", "setTimeout(() => {}, 1)", "must not set a timer"],
  ["core/model/a.ts", "export const f = async () => 1", "must not be asynchronous"],
  ["core/model/a.ts", 'console.log("x")', "must not have side effects"],
])("of purity, in %s, `%s` is reported", expectProblem)

test("words in comments and strings of core are not impure", () => {
  const source = '// await nobody\n/**\n * async, Date.now\n */\nexport const word = "await" // Math.random\n'
  expect(checkTree(tree({ "core/model/a.ts": source }))).toEqual([])
})

test("a subfolder that only one of the stores has is reported", () => {
  const files = { "store/sqlite/claim/a.ts": "", "store/postgres/claim/a.ts": "", "store/postgres/runs/a.ts": "" }
  expect(checkTree(tree(files))).toEqual([
    "src/store/postgres/runs: src/store/sqlite has no such folder; both must have the same",
  ])
})

test("tests and their helpers may import anything", () => {
  const source = 'import { SqliteStore } from "../store/sqlite/store.ts"\n'
  expect(checkTree(tree({ "engine/a.test.ts": source, "core/a.test.ts": source, "engine/testing/a.ts": source }))).toEqual([])
})
