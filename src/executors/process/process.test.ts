import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, test } from "vitest"
import { FileObjectStore } from "../../objects/file.ts"
import { assignment, launch, realClock } from "../conformance/fixture.ts"
import type { Capabilities, ExecutorFixture } from "../conformance/fixture.ts"
import { executorSuite } from "../conformance/suite.ts"
import { nativeHelper } from "./native.ts"
import { ProcessExecutor } from "./process.ts"

type Kind = { helper: "native" | "node"; namespace: boolean }

const setup = async ({ helper, namespace }: Kind): Promise<ExecutorFixture & { executor: ProcessExecutor }> => {
  const folder = await mkdtemp(join(tmpdir(), "ork-process-"))
  const objects = new FileObjectStore(join(folder, "objects"))
  const executor = new ProcessExecutor({ objects, clock: realClock, helper, dataDir: join(folder, "data"), namespace })
  await executor.start()
  const cleanup = async () => {
    await executor.stop()
    await rm(folder, { recursive: true, force: true })
  }
  return { executor, objects, folder, cleanup }
}

const suite = (name: string, kind: Kind, can: Capabilities): void =>
  executorSuite(name, () => setup(kind), {
    can,
    host: (folder) => [kind.helper, kind.namespace ? "yes" : "no", folder],
  })

const native = await nativeHelper()
const root = process.geteuid?.() === 0

if ("unavailable" in native) {
  console.error(`SKIPPED: every test of the compiled spawn helper: ${native.unavailable}`)
  describe.skip(`executor: process, compiled helper (skipped: ${native.unavailable})`)
} else {
  const can = { usage: true, scrubbed: true, memoryKill: root }
  if (root) suite("process, compiled helper, pid namespace", { helper: "native", namespace: true }, can)
  else console.error("SKIPPED: the compiled spawn helper in a pid namespace, which needs root")
  suite("process, compiled helper, no namespace", { helper: "native", namespace: false }, can)
}
suite(
  "process, helper in JavaScript",
  { helper: "node", namespace: false },
  { usage: false, scrubbed: false, memoryKill: false },
)

test("files of an attempt are gone when it is over", async () => {
  const fixture = await setup({ helper: "node", namespace: false })
  const run = (shell: string) => launch(fixture, assignment(fixture.folder, { shell })).result
  expect((await run("echo '[1]' > $ORK_OUTPUT")).state).toBe("success")
  expect((await run("head -c 100000 /dev/zero > $ORK_OUTPUT; exit 1")).state).toBe("failed")
  const [own] = await readdir(join(fixture.folder, "data", "io"))
  expect(await readdir(join(fixture.folder, "data", "io", own!))).toEqual([])
  await fixture.executor.stop()
  expect(await readdir(join(fixture.folder, "data", "io"))).toEqual([])
  await fixture.cleanup()
})
