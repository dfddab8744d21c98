import { expect, test } from "vitest"
import { parseHttpAllow } from "../../core/settings/http-allow.ts"
import { checkEndpoint } from "./bucket-endpoint.ts"

const OWN = "s3://ork/data?endpoint=http://minio.internal:9000/&path_style=true"

const check =
  (address: string, httpAllow: string[] = []) =>
  () =>
    checkEndpoint(address, { objectStore: OWN, httpAllow: parseHttpAllow(httpAllow)! })

test("buckets of the clouds and at the endpoint of the object store are allowed", () => {
  for (const address of ["s3://inbox", "s3://inbox?region=eu", "gs://inbox", "s3://inbox?endpoint=http://minio.internal:9000"])
    expect(check(address)).not.toThrow()
})

test("any other endpoint needs a host in http_allow, whether it is private or public", () => {
  for (const endpoint of ["http://169.254.169.254", "http://127.0.0.1:80", "https://evil.example", "http://minio.internal"]) {
    expect(check(`s3://inbox?endpoint=${endpoint}`)).toThrow("would get requests with the credentials of Ork")
  }
  expect(check("s3://inbox?endpoint=https://s3.example:8443", ["s3.example:8443"])).not.toThrow()
  expect(check("s3://inbox?endpoint=https://s3.example", ["s3.example:8443"])).toThrow('add "s3.example" to http_allow')
  expect(check("s3://inbox?endpoint=http://10.1.2.3:9000", ["10.0.0.0/8"])).not.toThrow()
})
