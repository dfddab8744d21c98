import { expect, test } from "vitest"
import { parseObjectAddress } from "./object-address.ts"

const s3 = { kind: "s3", bucket: "my-bucket", prefix: "", endpoint: null, region: null, pathStyle: false }

test.each([
  ["file:.ork/objects", { kind: "file", folder: ".ork/objects" }],
  ["file:/var/lib/ork", { kind: "file", folder: "/var/lib/ork" }],
  ["file:///var/lib/ork", { kind: "file", folder: "/var/lib/ork" }],
  ["s3://my-bucket", s3],
  ["s3://my-bucket/", s3],
  ["s3://my-bucket/a/b", { ...s3, prefix: "a/b/" }],
  ["s3://my-bucket/a%20b/", { ...s3, prefix: "a b/" }],
  ["s3://my-bucket?region=eu-west-1", { ...s3, region: "eu-west-1" }],
  [
    "s3://my-bucket/ork?endpoint=http://127.0.0.1:9000&path_style=true",
    { ...s3, prefix: "ork/", endpoint: "http://127.0.0.1:9000", pathStyle: true },
  ],
  ["gs://my-bucket/ork", { kind: "gcs", bucket: "my-bucket", prefix: "ork/" }],
])("%s is understood", (address, parts) => {
  expect(parseObjectAddress(address)).toEqual(parts)
})

test.each([
  "file:",
  "",
  "s3://",
  "s3:///prefix",
  "s3://UPPER_case!/x",
  "s3://key:secret@my-bucket/x",
  "s3://my-bucket?endpoint=localhost:9000",
  "s3://my-bucket?path_style=yes",
  "s3://my-bucket?regoin=eu-west-1",
  "s3://my-bucket/a%2",
  "gs://my-bucket?region=x",
  "gs://my-bucket/x#y",
  "http://my-bucket/x",
  "my-bucket",
])("%j is not", (address) => {
  expect(parseObjectAddress(address)).toBeNull()
})
