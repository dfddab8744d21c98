import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { collectBundle } from "./bundle-files.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { readTar } from "../../objects/bundles/tar.ts"
import { parseValue } from "../../definition/parse.ts"

const setup = (files: { [path: string]: string }) => {
  const folder = mkdtempSync(join(tmpdir(), "ork-collect-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

const compiled = (tasks: object, include: string[] = []): CompiledWorkflow => {
  const parsed = parseValue({ name: "test", tasks, include })
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return parsed.workflow
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
    "include[0]: matches no file beside the definition",
    "include[1]: the files of the workflow are larger than 16 MiB together: keep data elsewhere",
  ])
})
