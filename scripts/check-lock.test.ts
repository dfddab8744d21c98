import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { accepts, missingOptional, tooNew, withAddress, withInstallScript, withoutIntegrity } from "./check-lock.ts"

test.each([
  "*",
  ">=22",
  ">= 22.13",
  ">=22.13.0",
  "^12.20 || >= 14.13",
  "6.* || 8.* || >= 10.*",
  "22",
  "22.x",
  "^22.0.0",
  "~22.13",
  ">=20 <23",
])("Node 22.13.0 is accepted by %s", (range) => expect(accepts(range, [22, 13, 0])).toBe(true))

test.each([">=22.15.0", ">22.13.0", "^20.0.0 || >=24", "23", "~22.12", ">=18 <22", "22.13.1", "lts"])(
  "Node 22.13.0 is refused by %s",
  (range) => expect(accepts(range, [22, 13, 0])).toBe(false),
)

test("runtime packages are reported, development tools are not", () => {
  const newer = { version: "8.0.0", engines: { node: ">=22.19" } }
  const problems = tooNew(">=22.13", {
    "": { engines: { node: ">=22.13" } },
    "node_modules/fine": { version: "1.0.0", engines: { node: ">=20" } },
    "node_modules/silent": { version: "1.0.0" },
    "node_modules/tool": { ...newer, dev: true },
    "node_modules/newer": newer,
  })
  expect(problems).toEqual([
    "node_modules/newer 8.0.0: wants Node >=22.19, and Ork runs on 22.13.0; take an older version of it",
  ])
})

test("the address of a registry is reported, the folder of a workspace is not", () => {
  const packages = {
    "node_modules/ui": { resolved: "ui", link: true },
    "node_modules/a": { version: "1.0.0", resolved: "https://registry.example/a.tgz" },
  }
  expect(withAddress(packages)).toEqual([
    expect.stringContaining("node_modules/a: has the address https://registry.example/a.tgz"),
  ])
})

test("an optional package is searched beside its owner and in the folders above, and reported when it is missing", () => {
  const owner = { optionalDependencies: { "@tool/linux": "1.0.0", "@tool/mac": "1.0.0", "@tool/other": "1.0.0" } }
  const packages = {
    "node_modules/a": {},
    "node_modules/a/node_modules/tool": owner,
    "node_modules/a/node_modules/tool/node_modules/@tool/linux": {},
    "node_modules/@tool/mac": {},
  }
  expect(missingOptional(packages)).toEqual([
    "node_modules/a/node_modules/tool: its optional @tool/other is missing, and `npm ci` refuses that",
  ])
})

test("a package without a checksum is reported, also a tool for another platform; a workspace is not", () => {
  const packages = {
    "": {},
    ui: {},
    "node_modules/ui": { link: true },
    "node_modules/fine": { integrity: "sha512-x" },
    "node_modules/bare": { version: "1.0.0" },
    "node_modules/fine/node_modules/@tool/mac": { version: "1.0.0", dev: true, optional: true },
  }
  expect(withoutIntegrity(packages)).toEqual([
    expect.stringContaining("node_modules/bare: has no integrity"),
    expect.stringContaining("@tool/mac: has no integrity"),
  ])
})

test("an install script of a package that users install is reported, that of a tool is not", () => {
  const packages = { "node_modules/a": { hasInstallScript: true }, "node_modules/b": { hasInstallScript: true, dev: true } }
  expect(withInstallScript(packages)).toEqual([expect.stringContaining("node_modules/a: runs a script")])
})

test("no package that users install runs a script", () => {
  const lock = readFileSync(join(import.meta.dirname, "../package-lock.json"), "utf8")
  expect(withInstallScript((JSON.parse(lock) as { packages: Parameters<typeof withInstallScript>[0] }).packages)).toEqual([])
})
