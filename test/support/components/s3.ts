// Fresh buckets for tests, on the server of TEST_S3_ENDPOINT, on the one of this test run (global-setup.ts), or on one that ends with this
// process. Sets the variables of the standard credential chain for this process.

import { randomBytes } from "node:crypto"
import { connect } from "node:net"
import { text } from "node:stream/consumers"
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3"
import { ACCESS_KEY, SECRET, startS3 } from "./s3-server.ts"

export interface TestBucket {
  bucket: string
  endpoint: string
  /** The value of ORK_OBJECT_STORE. */
  address: string
  /** The credentials, for the environment of a process. */
  env: { AWS_ACCESS_KEY_ID: string; AWS_SECRET_ACCESS_KEY: string }
}

let known: Promise<string> | undefined

const findServer = async (): Promise<string> => {
  const given = process.env.TEST_S3_ENDPOINT
  if (given) return given
  const port = process.env.ORK_TEST_S3_PORT
  if (!port) return (await startS3()).url
  const reply = JSON.parse(await text(connect(Number(port), "127.0.0.1"))) as { url: string } | { error: string }
  if ("error" in reply) throw new Error(reply.error)
  return reply.url
}

export const createBucket = async (): Promise<TestBucket> => {
  const endpoint = await (known ??= findServer())
  const env = { AWS_ACCESS_KEY_ID: ACCESS_KEY, AWS_SECRET_ACCESS_KEY: SECRET }
  Object.assign(process.env, env)
  const bucket = `ork-${randomBytes(8).toString("hex")}`
  const client = new S3Client({
    endpoint,
    region: "us-east-1",
    forcePathStyle: true,
    requestHandler: { requestTimeout: 30_000, throwOnRequestTimeout: true },
  })
  await client.send(new CreateBucketCommand({ Bucket: bucket }))
  client.destroy()
  return { bucket, endpoint, address: `s3://${bucket}/ork?endpoint=${encodeURIComponent(endpoint)}&path_style=true`, env }
}
