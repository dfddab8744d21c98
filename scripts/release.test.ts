import { expect, test } from "vitest"
import { provenanceOf, unpinnedImages } from "./release.ts"

test("base images without a digest are found; stages and Ork's own image need none", () => {
  const digest = `@sha256:${"a".repeat(64)}`
  const text = `FROM node:24-slim AS build\nFROM node:24${digest}\nFROM build\n  image: ork\n    image: postgres:18\n`
  expect(unpinnedImages(text)).toEqual(["node:24-slim", "postgres:18"])
  expect(unpinnedImages(`FROM node:24${digest} AS build\nFROM build\n`)).toEqual([])
})

test("the provenance names the files, the commit and the lock file", () => {
  const subject = [{ name: "ork.tgz", digest: { sha256: "1" } }]
  expect(provenanceOf(subject, { commit: "abc", lockHash: "2", node: "v24" })).toMatchObject({
    _type: "https://in-toto.io/Statement/v1",
    subject,
    predicate: { buildDefinition: { resolvedDependencies: [{ digest: { gitCommit: "abc" } }, { digest: { sha256: "2" } }] } },
  })
})
