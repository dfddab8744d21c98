// An executor on a fake of Cloud Run, with a clock that is faster than the real one.

import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { onTestFinished } from "vitest"
import type { Clock } from "../../../core/model/ports.ts"
import type { Json } from "../../../core/values/json.ts"
import { FileObjectStore } from "../../../objects/file/file.ts"
import { assignment, launch, type Launched, type Overrides } from "../../conformance/fixture.ts"
import { CloudRunExecutor, type CloudRunExecutorOptions } from "../cloudrun.ts"
import { FakeCloudRun, PROJECT, REGION } from "./fake-cloud-run.ts"

const clockOf = (speed: number): Clock => {
  const begin = Date.now()
  return {
    now: () => begin + (Date.now() - begin) * speed,
    monotonic: () => begin + (Date.now() - begin) * speed,
    after: (ms, fn) => {
      const timer = setTimeout(fn, ms / speed)
      return () => clearTimeout(timer)
    },
  }
}

export interface CloudRunFixture {
  fake: FakeCloudRun
  objects: FileObjectStore
  folder: string
  /** Creates the executor of another server. */
  newExecutor(more?: Partial<CloudRunExecutorOptions>): CloudRunExecutor
  /** Runs a script in the job `sh`, whose image runs a shell. */
  run(script: string, more?: Overrides & { cloudrun?: Json }, by?: CloudRunExecutor): Launched
}

const SPEED = 50

export const setup = async (speed = SPEED): Promise<CloudRunFixture> => {
  const clock = clockOf(speed)
  const folder = await mkdtemp(join(tmpdir(), "ork-cloudrun-"))
  const fake = await FakeCloudRun.start(() => clock.now())
  fake.addJob("sh", ["/bin/sh", "-c"])
  const objects = new FileObjectStore(join(folder, "objects"))
  const store = `file:${join(folder, "objects")}`
  const executors: CloudRunExecutor[] = []
  const newExecutor = (more: Partial<CloudRunExecutorOptions> = {}): CloudRunExecutor => {
    const settings = { project: PROJECT, region: REGION, endpoint: fake.address, loggingEndpoint: fake.address }
    const created = new CloudRunExecutor({ objects, store, clock, folder: join(folder, "cloudrun"), ...settings, ...more })
    executors.push(created)
    return created
  }
  const executor = newExecutor()
  onTestFinished(async () => {
    for (const one of executors) await one.stop()
    await fake.stop()
    await rm(folder, { recursive: true, force: true })
  })
  return {
    fake,
    objects,
    folder,
    newExecutor,
    run: (script, { cloudrun = {}, ...more } = {}, by = executor) =>
      launch(
        { executor: by, objects, folder, cleanup: async () => {} },
        assignment(folder, { argv: [script] }, { ...more, fields: { job: "sh", cloudrun, ...more.fields } }),
      ),
  }
}
