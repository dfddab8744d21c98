import { S3ObjectStore } from "../../src/objects/s3.ts"
import { createBucket } from "../support/s3.ts"
import { execSuite } from "./suite.ts"

execSuite("S3", async () => {
  const { bucket, endpoint, address, env } = await createBucket()
  return { objects: new S3ObjectStore({ bucket, prefix: "ork/", endpoint, region: null, pathStyle: true }), address, env }
})
