// The Dockerfile by the rules that linters have: there is no registry here to build it from. dockerfile.slow.test.ts runs its steps.

import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { REPO } from "../support/ork.ts"
import { type Instruction, parseDockerfile } from "./dockerfile.ts"

const TEXT = readFileSync(join(REPO, "deploy/Dockerfile"), "utf8")
const stages = parseDockerfile(TEXT)
const last = stages.at(-1)!
const all = stages.flatMap(({ instructions }) => instructions)
const named = (list: Instruction[], name: string): Instruction[] => list.filter((one) => one.name === name)

describe("the Dockerfile", () => {
  it("has two stages from the same base with a version, so that compilers and sources stay behind", () => {
    expect(stages.map(({ image, alias }) => [image, alias])).toEqual([
      ["node:24-slim", "build"],
      ["node:24-slim", null],
    ])
  })

  it("copies only what is there, by name, and takes nothing from the network by ADD", () => {
    const sources = named(all, "COPY")
      .filter(({ flags }) => flags["from"] === undefined)
      .flatMap(({ rest }) => rest.split(/\s+/).slice(0, -1))
    expect(sources.length).toBeGreaterThan(8)
    expect(sources.filter((source) => source === "." || !existsSync(join(REPO, source)))).toEqual([])
    expect(named(all, "ADD")).toEqual([])
  })

  it("copies from stages that there are", () => {
    const from = named(all, "COPY").flatMap(({ flags }) => flags["from"] ?? [])
    expect(new Set(from)).toEqual(new Set(["build"]))
  })

  it("copies what the files that are left out of the context allow", () => {
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

  it("installs packages without extras and leaves no lists of them", () => {
    const installs = named(all, "RUN").filter(({ rest }) => rest.includes("apt-get install"))
    expect(installs).toHaveLength(2)
    for (const { rest } of installs) {
      expect(rest).toMatch(/^apt-get update && apt-get install --yes --no-install-recommends /)
      expect(rest).toContain("rm -rf /var/lib/apt/lists/*")
    }
    expect(named(last.instructions, "RUN").some(({ rest }) => /\b(?:gcc|make|git)\b/.test(rest))).toBe(false)
  })

  it("runs no scripts of packages, and leaves those for development behind", () => {
    const npm = named(all, "RUN").flatMap(({ rest }) => rest.match(/npm (?:ci|install|prune)[^&]*/g) ?? [])
    expect(npm).toHaveLength(2)
    for (const command of npm) expect(command).toMatch(/^npm (?:ci|prune --omit=dev) --ignore-scripts/)
  })

  it("runs as a user without rights, in absolute folders", () => {
    expect(named(last.instructions, "USER").map(({ rest }) => rest)).toEqual(["node"])
    for (const { rest } of named(all, "WORKDIR")) expect(rest).toMatch(/^\//)
    expect(TEXT).not.toMatch(/\bsudo\b|chmod\s+777/)
  })

  it("starts ork as a list of words under an init, and tells of its health", () => {
    const [entry] = named(last.instructions, "ENTRYPOINT")
    const [command] = named(last.instructions, "CMD")
    expect([entry?.words, command?.words]).toEqual([["/usr/bin/tini", "--", "ork"], ["serve"]])
    const [health, ...more] = named(last.instructions, "HEALTHCHECK")
    expect(more).toEqual([])
    expect(Object.keys(health!.flags).toSorted()).toEqual(["interval", "retries", "start-period", "timeout"])
    expect(health?.words?.[0]).toBe("node")
  })

  it("holds no secret", () => {
    expect(named(all, "ARG")).toEqual([])
    expect(named(all, "ENV").map(({ rest }) => rest)).toEqual(["NODE_ENV=production ORK_HOST=0.0.0.0 ORK_DATA_DIR=/data"])
  })
})
