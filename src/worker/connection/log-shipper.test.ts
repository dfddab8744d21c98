// Logs of a worker that cannot be read on its own machine.

import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import type { Clock } from "../../core/model/ports.ts"
import { systemClock, systemRandom } from "../../engine/system.ts"
import { LogWriter } from "../../objects/logs/log-writer.ts"
import { decodeFrames } from "../../protocol/wire/log-frames.ts"
import { AssignedTask, type WireAssignment } from "../tasks/assigned-task.ts"
import { LogShipper } from "./log-shipper.ts"
import { Registration } from "./registration.ts"
import { ServerClient } from "./server-client.ts"

const fastClock: Clock = { ...systemClock, after: (ms, fn) => systemClock.after(ms / 100, fn) }

const setup = () => {
  const folder = mkdtempSync(join(tmpdir(), "ork-shipper-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const received: { [attempt: string]: string } = {}
  const fetch = (async (_url: string, { body }: { body: Buffer }) => {
    const logs = decodeFrames(Buffer.from(body))!.map(({ attempt_id, offset, raw }) => {
      received[attempt_id] = (received[attempt_id] ?? "") + raw.toString()
      return { attempt_id, next: offset + raw.length }
    })
    return Response.json({ logs })
  }) as unknown as typeof globalThis.fetch
  const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn() }
  const client = new ServerClient({ servers: ["http://a"], clock: fastClock, random: systemRandom, log, fetch })
  const registration = new Registration({ id: "w", token: "t", lease_ms: 1, heartbeat_ms: 1 })
  onTestFinished(() => registration.end())
  const shipper = new LogShipper(registration, { client, clock: fastClock, log, localPath: (key) => join(folder, key) })
  /** Adds a task with a log of one line. */
  const add = (name: string): { task: AssignedTask; index: string } => {
    const task = new AssignedTask({
      row: 1,
      attempt_id: name,
      token: "t",
      work: { prefix: `${name}/` },
    } as unknown as WireAssignment)
    const writer = new LogWriter(join(folder, name, "log"))
    writer.add(1, Buffer.from(`line of ${name}\n`))
    writer.close()
    return { task, index: join(folder, name, "log.idx") }
  }
  return { shipper, add, received }
}

/** Makes reads of a file fail. */
const replaceByFolder = (path: string): void => {
  rmSync(path)
  mkdirSync(path)
}

test("a log that cannot be read fails its task, and no other log loses its end", async () => {
  const { shipper, add, received } = setup()
  const [broken, whole] = [add("broken"), add("whole")]
  replaceByFolder(broken.index)
  shipper.add(broken.task)
  shipper.add(whole.task)
  const failed = expect(shipper.finish(broken.task)).rejects.toThrow("its log could not be read")
  await shipper.finish(whole.task)
  expect(received).toEqual({ whole: "line of whole\n" })
  await failed
})
