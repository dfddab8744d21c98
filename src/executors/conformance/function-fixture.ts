// A function executor with a store and a folder of its own, and the language that its functions are written in.

import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileObjectStore } from "../../objects/file/file.ts"
import { FunctionExecutor } from "../pool/function-executor.ts"
import type { Runtime } from "../pool/runtime.ts"
import { assignment, type ExecutorFixture, launch, type Launched, marked, type Overrides, realClock } from "./fixture.ts"

export interface FunctionFixture extends ExecutorFixture {
  /** Worker processes of its pool that are alive. */
  workers(): number[]
}

export interface Language {
  name: string
  extension: string
  /** The functions of the suite, by name. */
  functions: string
  /** A file whose default function returns this number. */
  returning(value: number): string
  /** A file whose default function returns what `lib` in the same folder gives, and that file. */
  importing: { main: string; lib(value: number): string; libName: string }
}

/** What tests do with a fixture that they are given later. */
export const workIn = ({ extension }: Language, fixture: () => FunctionFixture) => {
  const go = (name: string | null, { node, ...rest }: Overrides = {}): Launched => {
    const place = { file: `functions.${extension}`, ...(name !== null && { function: name }), ...node }
    return launch(fixture(), assignment(fixture().folder, null, { ...rest, node: place }))
  }
  return {
    go,
    run: (name: string | null, overrides?: Overrides) => go(name, overrides).result,
    put: (name: string, text: string): void => writeFileSync(join(fixture().folder, name), text),
  }
}

export const functionFixture = async (
  runtime: Runtime,
  helper: "native" | "node",
  { maxTasks = 1000 }: { maxTasks?: number } = {},
): Promise<FunctionFixture> => {
  const parent = realpathSync(mkdtempSync(join(tmpdir(), "ork-functions-")))
  chmodSync(parent, 0o755)
  const objects = new FileObjectStore(join(parent, "objects"))
  const options = { clock: realClock, limit: 4, atOnce: 2, maxTasks, idleMs: 60_000 }
  const executor = new FunctionExecutor({ runtime, objects, helper, ...options })
  await executor.start()
  const main = runtime.argv().at(-1)!
  return {
    executor,
    objects,
    folder: parent,
    // The shell that starts a worker becomes it.
    workers: () => marked(main).filter((pid) => marked(`-${process.pid}-`).includes(pid)),
    async cleanup() {
      await executor.stop()
      rmSync(parent, { recursive: true, force: true })
    },
  }
}
