// A function executor with its own store and folder, and the language of its functions.

import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { FileObjectStore } from "../../objects/file/file.ts"
import { PoolExecutor } from "../pool/pool-executor.ts"
import { Pythons } from "../interpreter/pythons.ts"
import type { Runtime } from "../pool/runtime.ts"
import { assignment, type ExecutorFixture, launch, type Launched, marked, type Overrides, realClock } from "./fixture.ts"

export interface FunctionFixture extends ExecutorFixture {
  /** Returns the pids of its worker processes. */
  workers(): number[]
}

export interface Language {
  name: string
  extension: string
  /** Source of the functions of the suite. */
  functions: string
  /** Returns the source of a default function that returns this number. */
  returning(value: number): string
  /** Sources of a default function that returns a value of `lib`, and of `lib`. */
  importing: { main: string; lib(value: number): string; libName: string }
}

/** Returns functions that launch tasks and write files, on a fixture that is created later. */
export const launcherFor = ({ extension }: Language, fixture: () => FunctionFixture) => {
  const go = (name: string | null, { node, ...rest }: Overrides = {}): Launched => {
    const target = { file: `functions.${extension}`, ...(name !== null && { function: name }), ...node }
    return launch(fixture(), assignment(fixture().folder, null, { ...rest, node: target }))
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
  const options = { clock: realClock, maxWorkers: 4, eagerWorkers: 2, maxTasks, idleMs: 60_000 }
  const executor = new PoolExecutor({
    runtime,
    objects,
    helper,
    pythons: new Pythons(join(parent, "data"), objects),
    ...options,
  })
  await executor.start()
  const main = runtime.argv(null).at(-1)!
  return {
    executor,
    objects,
    folder: parent,
    workers: () => marked(main).filter((pid) => marked(`-${process.pid}-`).includes(pid)),
    async cleanup() {
      await executor.stop()
      rmSync(parent, { recursive: true, force: true })
    },
  }
}
