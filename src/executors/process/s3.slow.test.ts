import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createBucket } from "../../../test/support/components/s3.ts"
import { S3ObjectStore } from "../../objects/s3/s3.ts"
import { realClock } from "../conformance/fixture.ts"
import { executorSuite } from "../conformance/suite.ts"
import { ProcessExecutor } from "./process.ts"

const bucket = await createBucket()

executorSuite(
  "process, logs and outputs on S3",
  async () => {
    const folder = await mkdtemp(join(tmpdir(), "ork-process-s3-"))
    const objects = new S3ObjectStore({ ...bucket, prefix: "ork/", region: null, pathStyle: true })
    const executor = new ProcessExecutor({ objects, clock: realClock, helper: "node", dataDir: join(folder, "data") })
    await executor.start()
    const cleanup = async () => {
      await executor.stop()
      await rm(folder, { recursive: true, force: true })
    }
    return { executor, objects, folder, cleanup }
  },
  {
    can: { usage: false, scrubbed: false, hidden: false, memoryKill: false },
    host: (folder) => ["node", "no", folder],
  },
)
