// Checks the Dockerfile by the rules of linters, without an image registry. dockerfile.slow.test.ts runs its steps.

import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { withoutDigest } from "../../scripts/images.ts"
import { REPO } from "../support/ork.ts"
import { type Instruction, parseDockerfile } from "./dockerfile.ts"

const TEXT = readFileSync(join(REPO, "deploy/Dockerfile"), "utf8")
const stages = parseDockerfile(TEXT)
const last = stages.at(-1)!
const all = stages.flatMap(({ instructions }) => instructions)
const named = (list: Instruction[], name: string): Instruction[] => list.filter((one) => one.name === name)

describe("the Dockerfile", () => {
  it("has two stages from the same pinned base, so that the image contains no compilers and sources", () => {
    expect(stages.map(({ image, alias }) => [withoutDigest(image), alias])).toEqual([
      ["node:24-slim", "build"],
      ["node:24-slim", null],
    ])
  })

  it("copies only existing files by name, and uses no ADD", () => {
    const sources = named(all, "COPY")
      .filter(({ flags }) => flags["from"] === undefined)
      .flatMap(({ rest }) => rest.split(/\s+/).slice(0, -1))
    expect(sources.length).toBeGreaterThan(8)
    expect(sources.filter((source) => source === "." || !existsSync(join(REPO, source)))).toEqual([])
    expect(named(all, "ADD")).toEqual([])
  })

  it("copies from existing stages", () => {
    const from = named(all, "COPY").flatMap(({ flags }) => flags["from"] ?? [])
    expect(new Set(from)).toEqual(new Set(["build"]))
  })

  it("copies nothing that .dockerignore excludes", () => {
    const ignored = readFileSync(join(REPO, "deploy/Dockerfile.dockerignore"), "utf8").split("\n")
    expect(ignored[0]).toBe("*")
    const kept = new Set(ignored.filter((line) => line.startsWith("!")).map((line) => line.slice(1)))
    const sources = named(all, "COPY")
      .filter(({ flags }) => flags["from"] === undefined)
      .flatMap(({ rest }) =>
        rest
          .split(/\s+/)
          .slice(0, -1)
          .map((source) => source.split("/")[0]!),
      )
    expect(new Set(sources)).toEqual(kept)
  })

  it("installs packages without recommendations and removes the package lists", () => {
    const installs = named(all, "RUN").filter(({ rest }) => rest.includes("apt-get install"))
    expect(installs).toHaveLength(2)
    for (const { rest } of installs) {
      expect(rest).toMatch(/^apt-get update && apt-get install --yes --no-install-recommends /)
      expect(rest).toContain("rm -rf /var/lib/apt/lists/*")
    }
    expect(named(last.instructions, "RUN").some(({ rest }) => /\b(?:gcc|make|git)\b/.test(rest))).toBe(false)
  })

  it("runs no npm scripts and omits development packages", () => {
    const npm = named(all, "RUN").flatMap(({ rest }) => rest.match(/npm (?:ci|install|prune)[^&]*/g) ?? [])
    expect(npm).toHaveLength(2)
    for (const command of npm) expect(command).toMatch(/^npm (?:ci|prune --omit=dev) --ignore-scripts/)
  })

  it("runs as an unprivileged user, in absolute folders", () => {
    expect(named(last.instructions, "USER").map(({ rest }) => rest)).toEqual(["node"])
    for (const { rest } of named(all, "WORKDIR")) expect(rest).toMatch(/^\//)
    expect(TEXT).not.toMatch(/\bsudo\b|chmod\s+777/)
  })

  it("starts ork in exec form under an init, with a health check", () => {
    const [entry] = named(last.instructions, "ENTRYPOINT")
    const [command] = named(last.instructions, "CMD")
    expect([entry?.words, command?.words]).toEqual([["/usr/bin/tini", "--", "ork"], ["serve"]])
    const [health, ...more] = named(last.instructions, "HEALTHCHECK")
    expect(more).toEqual([])
    expect(Object.keys(health!.flags).toSorted()).toEqual(["interval", "retries", "start-period", "timeout"])
    expect(health?.words?.[0]).toBe("node")
  })

  it("contains no secret", () => {
    expect(named(all, "ARG")).toEqual([])
    expect(named(all, "ENV").map(({ rest }) => rest)).toEqual(["NODE_ENV=production ORK_HOST=0.0.0.0 ORK_DATA_DIR=/data"])
  })
})
