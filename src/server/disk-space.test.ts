import { tmpdir } from "node:os"
import { expect, it } from "vitest"
import { fullDiskProblem } from "./disk-space.ts"

const disk = (bavail: number) => (() => Promise.resolve({ bavail, bsize: 4096 })) as never

it("a disk with less than 10 MiB is full", async () => {
  expect(await fullDiskProblem("/data", disk(1000))).toBe("the disk of its data folder is full (3.9 MiB free): free some space")
  expect(await fullDiskProblem("/data", disk(10_000))).toBeNull()
})

it("a disk whose state is not known counts as not full", async () => {
  expect(await fullDiskProblem(tmpdir())).toBeNull()
  expect(await fullDiskProblem("/does/not/exist")).toBeNull()
})
