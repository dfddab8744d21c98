// compose.yaml uses existing names only and contains no password. The systemd unit passes systemd's own check.

import { execFileSync } from "node:child_process"
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { describe, expect, it } from "vitest"
import { parse } from "yaml"
import { resolveConfig, SETTINGS } from "../../src/config.ts"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { isRoot } from "../support/users.ts"

interface Service {
  image?: string
  build?: { context: string; dockerfile: string }
  command?: string[]
  entrypoint?: string[]
  environment?: Record<string, string>
  depends_on?: Record<string, { condition: string }>
  volumes?: string[]
  healthcheck?: { test?: string[]; disable?: boolean }
}

/** The fields of the Compose specification that are used here; another one is most likely a mistake. */
const FIELDS = new Set([
  "image",
  "build",
  "command",
  "entrypoint",
  "restart",
  "read_only",
  "tmpfs",
  "cap_add",
  "cap_drop",
  "security_opt",
  "stop_grace_period",
  "environment",
  "depends_on",
  "healthcheck",
  "ports",
  "user",
  "volumes",
])
const CONDITIONS = ["service_started", "service_healthy", "service_completed_successfully"]

const FILE = join(REPO, "deploy/compose.yaml")
const TEXT = readFileSync(FILE, "utf8")
const { services, volumes } = parse(TEXT, { merge: true }) as {
  services: Record<string, Service>
  volumes: Record<string, null>
}
const ours = Object.entries(services).filter(([, { image }]) => image === "ork")

describe("compose.yaml", () => {
  it("has Postgres, an S3 server, two servers and two workers", () => {
    expect(Object.keys(services)).toEqual([
      "postgres",
      "s3",
      "bucket",
      "server-1",
      "server-2",
      "worker-key",
      "worker-1",
      "worker-2",
    ])
    expect(ours.map(([, { command }]) => command?.[0])).toEqual(["serve", "serve", undefined, "worker", "worker"])
  })

  it("gives workers a key with the scope worker, and nothing of the servers", () => {
    for (const name of ["worker-1", "worker-2"]) expect(services[name]!.environment).toBeUndefined()
    expect(services["worker-key"]!.entrypoint?.join(" ")).toContain("ork keys create workers --scope worker")
  })

  it.runIf(isRoot)(
    "starts workers, as a user who cannot read it, with the key in the file that the service worker-key writes",
    () => {
      const folder = temporaryFolder()
      chmodSync(folder, 0o755)
      const run = (service: string, ork: string, args: string[]) => {
        const [shell, ...rest] = services[service]!.entrypoint!.slice(services[service]!.entrypoint!.indexOf("sh"))
        writeFileSync(join(folder, "ork"), `#!/bin/sh\n${ork}\n`, { mode: 0o755 })
        const words = [...rest, ...args].map((word) =>
          word.replaceAll("$$", "$").replaceAll("/keys", folder).replaceAll("=node", "=daemon"),
        )
        return execFileSync(shell!, words, { env: { PATH: `${folder}:${process.env["PATH"]}` }, encoding: "utf8" })
      }
      run("worker-key", 'echo "key-of $*"', [])
      run("worker-key", "exit 1", [])
      expect(readFileSync(join(folder, "worker"), "utf8")).toBe("key-of keys create workers --scope worker\n")
      const started = run("worker-1", `echo "$(id -un): $ORK_API_KEY: $*"; cat ${folder}/worker || exit 0`, [
        "worker",
        "--queue",
        "a b",
      ])
      expect(started).toBe("daemon: key-of keys create workers --scope worker: worker --queue a b\n")
    },
  )

  it("uses existing services, conditions, volumes and fields", () => {
    for (const [name, service] of Object.entries(services)) {
      expect({ name, fields: Object.keys(service).filter((field) => !FIELDS.has(field)) }).toEqual({ name, fields: [] })
      for (const [other, { condition }] of Object.entries(service.depends_on ?? {})) {
        expect(Object.keys(services)).toContain(other)
        expect(CONDITIONS).toContain(condition)
        if (condition === "service_healthy") expect(healthOf(services[other]!)).toBe(true)
      }
      for (const volume of service.volumes ?? []) expect(Object.keys(volumes)).toContain(volume.split(":")[0])
      if (service.build !== undefined)
        expect(existsSync(join(dirname(FILE), service.build.context, service.build.dockerfile))).toBe(true)
    }
  })

  it("pins image versions and takes passwords from the environment", () => {
    for (const { image } of Object.values(services)) expect(image).toMatch(/^ork$|:[\w.-]*\d/)
    const secret = /PASSWORD|SECRET|KEY$/
    const given = Object.values(services).flatMap(({ environment }) => Object.entries(environment ?? {}))
    expect(given.filter(([name, value]) => secret.test(name) && !/^\$\{\w+:\?.+\}$/.test(value))).toEqual([])
    expect(given.filter(([, value]) => /:\/\/\w+:(?!\$\{)[^@/]*@/.test(value))).toEqual([])
  })

  it("sets Ork's settings to valid values", () => {
    const keys = Object.values(SETTINGS).map(({ key }) => `ORK_${key.toUpperCase()}`)
    for (const [, { environment }] of ours) {
      const env = Object.fromEntries(Object.entries(environment ?? {}).map(([name, value]) => [name, filled(value)]))
      expect(Object.keys(env).filter((name) => name.startsWith("ORK_") && !keys.includes(name))).toEqual([])
      expect(resolveConfig({ flags: {}, env, file: null, machine: { cores: 2 } })).toHaveProperty("config")
    }
  })
})

const healthOf = ({ image, healthcheck }: Service): boolean =>
  image === "ork" ? healthcheck?.disable !== true : healthcheck?.test !== undefined

const filled = (value: string): string => value.replaceAll(/\$\{[^}]+\}/g, "a-value-of-a-variable")

describe("the systemd unit", () => {
  const unit = readFileSync(join(REPO, "deploy/systemd/ork.service"), "utf8")

  it.runIf(existsSync("/usr/bin/systemd-analyze"))("passes systemd's own check", () => {
    const file = join(temporaryFolder(), "ork.service")
    writeFileSync(file, unit.replace("/usr/local/bin/ork", process.execPath))
    expect(execFileSync("systemd-analyze", ["verify", "--man=no", file], { encoding: "utf8", stdio: "pipe" })).toBe("")
  })

  it("uses existing settings in its environment file", () => {
    const keys = Object.values(SETTINGS).map(({ key }) => `ORK_${key.toUpperCase()}`)
    const names = [...readFileSync(join(REPO, "deploy/systemd/ork.env"), "utf8").matchAll(/^#?(ORK_\w+)=/gm)].map(
      ([, name]) => name!,
    )
    expect(names.length).toBeGreaterThan(3)
    expect(names.filter((name) => !keys.includes(name))).toEqual([])
  })
})
