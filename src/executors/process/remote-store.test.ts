import { mkdtemp, readdir, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { MemoryObjectStore } from "../../objects/testing/memory.ts"
import { allLines, assignment, launch, realClock } from "../conformance/fixture.ts"
import type { ExecutorFixture } from "../conformance/fixture.ts"
import { ProcessExecutor } from "./process.ts"

let fixture: ExecutorFixture & { objects: MemoryObjectStore }

beforeEach(async () => {
  const folder = await mkdtemp(join(tmpdir(), "ork-elsewhere-"))
  const objects = new MemoryObjectStore()
  const executor = new ProcessExecutor({ objects, clock: realClock, helper: "auto", dataDir: join(folder, "data") })
  await executor.start()
  const cleanup = async () => {
    await executor.stop()
    await rm(folder, { recursive: true, force: true })
  }
  fixture = { executor, objects, folder, cleanup }
})
afterEach(() => fixture.cleanup())

const remainingFiles = async (): Promise<string[]> => {
  const io = join(fixture.folder, "data", "io")
  const [own] = await readdir(io)
  return readdir(join(io, own!))
}

test("the log of a process can be read while it runs, and is only in the store when it has ended", async () => {
  const work = assignment(fixture.folder, { shell: "echo up; while [ ! -e go ]; do sleep 0.05; done; echo '[7]'" })
  const running = launch(fixture, work)
  expect((await running.line("up")).stream).toBe("stdout")
  expect((await fixture.objects.list(`${work.prefix}log/`)).length).toBe(1)
  await launch(fixture, assignment(fixture.folder, { shell: "touch go" })).result
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [7] } })
  expect((await allLines(running.log)).map(({ line }) => line)).toEqual(["up", "[7]"])
  expect(await fixture.objects.list(work.prefix)).toEqual([`${work.prefix}log`, `${work.prefix}log.idx`])
  expect(await remainingFiles()).toEqual([])
})

test("a large last line is read from the uploaded log", async () => {
  const { result } = launch(
    fixture,
    assignment(fixture.folder, { shell: `printf '["'; head -c 300000 /dev/zero | tr '\\0' x; echo '"]'` }),
  )
  const end = await result
  const output = end.output as { key: string; bytes: number }
  expect(output.bytes).toBe(300_004)
  expect(await fixture.objects.size(output.key)).toBe(300_004)
})

test.each(["log", "log.idx"])("a large output fails the attempt when the stored %s lacks its end", async (name) => {
  const { objects } = fixture
  const putStream = objects.putStream.bind(objects)
  objects.putStream = async (key, data) => {
    const stored = await putStream(key, data)
    if (key.endsWith(`/${name}`)) await objects.put(key, (await objects.get(key))!.subarray(0, stored.bytes / 2))
    return stored
  }
  const print = `printf '["'; head -c 300000 /dev/zero | tr '\\0' x; echo '"]'`
  for (const node of [{ shell: print }, { shell: print, outputFormat: "text" as const }]) {
    const end = await launch(fixture, assignment(fixture.folder, node)).result
    expect(end).toMatchObject({ state: "failed", error: "its output is in its log, which cannot be read to its end" })
  }
})

test("a stopped or lost attempt keeps its log", async () => {
  const running = launch(fixture, assignment(fixture.folder, { shell: "echo up; exec sleep 600" }))
  await running.line("up")
  running.stop("cancel")
  expect((await running.result).state).toBe("cancelled")
  expect((await allLines(running.log)).map(({ line }) => line)).toEqual(["up"])
  const lost = launch(fixture, assignment(fixture.folder, { shell: "echo up; exec sleep 600" }))
  await lost.line("up")
  await fixture.executor.stop!()
  expect((await lost.result).state).toBe("lost")
  expect((await allLines(lost.log)).map(({ line }) => line)).toEqual(["up"])
})

test("a log that cannot be stored fails the attempt with the reason", async () => {
  fixture.objects.broken = new Error("the bucket is gone")
  const end = await launch(fixture, assignment(fixture.folder, { shell: "echo lost" })).result
  expect(end).toMatchObject({ state: "failed", error: "its output or log could not be stored: the bucket is gone" })
})
