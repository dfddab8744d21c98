// The part of `npm run outages` about disks and object stores, which needs root (for mounts) and an S3 server.

import { expect, test } from "vitest"
import { runSlice } from "../slice.ts"

test("a full or read-only disk and a silent, slow or lossy object store lose nothing and report no false success", async () => {
  const { code, printed } = await runSlice("outages", ["--only", "storage"])
  expect(printed).toMatch(/^6 outages, 0 violations$/m)
  expect(code).toBe(0)
}, 400_000)
