import { existsSync, mkdtempSync, renameSync, rmSync, utimesSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import { TaskFolders } from "./task-folders.ts"
import { ServerClient } from "../connection/server-client.ts"
import { Registration } from "../connection/registration.ts"
import { AssignedTask, type WireAssignment } from "../tasks/assigned-task.ts"
import { systemClock, systemRandom } from "../../engine/system.ts"
import { createBundle } from "../../objects/bundles/bundles.ts"

const RUN = "0190a000-0000-7000-8000-000000000001"
const DAY = 86_400_000

const setup = () => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-folders-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }))
  const bundle = createBundle([{ path: "main.ts", bytes: Buffer.from("export default 1"), executable: false }])
  const fetch = vi.fn(() => Promise.resolve(new Response(new Uint8Array(bundle.bytes))))
  const fail = (_fields: object, message: string): never => expect.unreachable(message)
  const log = { info: () => {}, warn: fail, error: fail }
  const client = new ServerClient({ servers: ["http://a"], clock: systemClock, random: systemRandom, log, fetch })
  const folders = new TaskFolders({ dataDir, client, log })
  const registration = new Registration({ id: "w", token: "t", lease_ms: 1, heartbeat_ms: 1 })
  const wire = { base_dir: null, working_dir: null, bundle: bundle.hash, upstream: null, work: { runId: RUN } }
  const task = new AssignedTask(wire as unknown as WireAssignment)
  const prepared = async (now: number): Promise<string> => (await folders.prepare(task, registration, now)).workingDir
  return { folders, task, prepared, fetch, work: join(dataDir, "work", RUN) }
}

test("a retry finds the folder of its run unchanged, or a new one with the same files if it was removed", async () => {
  const { folders, task, prepared, fetch, work } = setup()
  const now = Date.now()
  expect([await prepared(now), existsSync(join(work, "main.ts"))]).toEqual([work, true])
  renameSync(join(work, "main.ts"), join(work, "moved.ts"))
  folders.release(task)
  folders.runsEnded([RUN], [], now)
  await prepared(now)
  expect(existsSync(join(work, "main.ts")), "as the first attempt left it").toBe(false)
  folders.release(task)
  folders.runsEnded([RUN], [RUN], now)
  await prepared(now)
  expect(existsSync(join(work, "main.ts"))).toBe(true)
  folders.release(task)
  folders.runsEnded([RUN], [], now)
  utimesSync(work, now / 1000 - 7200, now / 1000 - 7200)
  folders.runsToCheck(now + 30 * DAY)
  await vi.waitUntil(() => !existsSync(work), { timeout: 15_000 })
  await prepared(now + 30 * DAY)
  expect(existsSync(join(work, "main.ts"))).toBe(true)
  expect(fetch.mock.calls.length, "the bundle was removed too, after a month").toBeGreaterThan(0)
})
