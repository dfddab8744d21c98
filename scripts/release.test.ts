import { execFileSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { temporaryFolder } from "../test/support/ork.ts"
import { unpinnedImages } from "./images.ts"
import { provenanceOf, writeArtifacts } from "./release.ts"

test("base images without a digest are found; stages and Ork's own image need none", () => {
  const digest = `@sha256:${"a".repeat(64)}`
  const text = `FROM node:24-slim AS build\nFROM node:24${digest}\nFROM build\n  image: ork\n    image: postgres:18\n`
  expect(unpinnedImages(text)).toEqual(["node:24-slim", "postgres:18"])
  expect(unpinnedImages(`FROM node:24${digest} AS build\nFROM build\n`)).toEqual([])
  const variables =
    "# syntax=docker/dockerfile:1\nARG NODE_IMAGE=node:24\nFROM ${NODE_IMAGE}\n  image: ${DB_IMAGE:-postgres:18}\n"
  expect(unpinnedImages(variables)).toEqual(["docker/dockerfile:1", "node:24", "postgres:18"])
})

test("the provenance names the files, the commit and the lock file", () => {
  const subject = [{ name: "ork.tgz", digest: { sha256: "1" } }]
  expect(provenanceOf(subject, { commit: "abc", lockHash: "2", node: "v24" })).toMatchObject({
    _type: "https://in-toto.io/Statement/v1",
    subject,
    predicate: { buildDefinition: { resolvedDependencies: [{ digest: { gitCommit: "abc" } }, { digest: { sha256: "2" } }] } },
  })
})

test("a release has both packages, an SBOM with a checksum for each runtime package, a provenance, and checksums that match", async () => {
  const folder = temporaryFolder()
  await writeArtifacts(folder)
  const { version, dependencies } = JSON.parse(readFileSync("package.json", "utf8")) as {
    version: string
    dependencies: { [name: string]: string }
  }
  const base = `ork-${version}`
  const packages = [`${base}.tgz`, `ork-server-${version}.tgz`]
  expect(readdirSync(folder).toSorted()).toEqual(
    ["SHA256SUMS", `${base}.cdx.json`, `${base}.provenance.json`, ...packages].toSorted(),
  )
  execFileSync("sha256sum", ["--check", "--strict", "SHA256SUMS"], { cwd: folder })
  const read = <T>(end: string): T => JSON.parse(readFileSync(join(folder, `${base}.${end}`), "utf8")) as T
  const { bomFormat, components } = read<{ bomFormat: string; components: { name: string; hashes?: object[] }[] }>("cdx.json")
  expect(bomFormat).toBe("CycloneDX")
  expect(components.map(({ name }) => name)).toEqual(expect.arrayContaining(Object.keys(dependencies)))
  expect(components.map(({ name }) => name)).not.toEqual(expect.arrayContaining(["vitest"]))
  expect(components.filter(({ hashes }) => hashes === undefined)).toEqual([])
  const { subject } = read<{ subject: { name: string }[] }>("provenance.json")
  expect(subject.map(({ name }) => name)).toEqual([...packages, `${base}.cdx.json`])
})
