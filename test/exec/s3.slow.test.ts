import { expect, test } from "vitest"
import { assignment } from "../../src/executors/conformance/fixture.ts"
import { writeSpec } from "../../src/executors/exec/exec.ts"
import { S3ObjectStore } from "../../src/objects/s3/s3.ts"
import { ork, temporaryFolder } from "../support/ork.ts"
import { createBucket } from "../support/components/s3.ts"
import { execSuite } from "./suite.ts"

const { bucket, endpoint, address, env } = await createBucket()
const objects = new S3ObjectStore({ bucket, prefix: "ork/", endpoint, region: null, pathStyle: true })

execSuite("S3", async () => ({ objects, address, env }))

test("the full URL of a spec is sufficient", async () => {
  const folder = temporaryFolder()
  const work = assignment(folder, { shell: "echo '[1]'" })
  const { key } = await writeSpec(objects, work)
  const [store, options] = address.split("?")
  const { code, stderr } = await ork(["exec"], { cwd: folder, env: { ...env, TASK_SPEC_PATH: `${store}/${key}?${options}` } })
  expect({ code, stderr }).toEqual({ code: 0, stderr: "ork exec: success\n" })
  expect(await objects.list(work.prefix)).toEqual(
    ["log", "log.idx", "output.json", "spec.json", "status.json"].map((name) => work.prefix + name),
  )
})
