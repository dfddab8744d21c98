import { readFileSync } from "node:fs"
import { expect, it } from "vitest"
import { checkNodeVersion } from "./node-version.ts"

const versions = (given: { [name: string]: string }): NodeJS.ProcessVersions => ({ ...process.versions, ...given })

it.each(["22.13.0", "22.21.1", "24.0.0", "30.1.0"])("accepts Node %s", (node) => {
  expect(() => checkNodeVersion(versions({ node }))).not.toThrow()
})

it.each(["18.20.8", "20.20.2", "22.12.0"])("rejects Node %s, and says which version it needs", (node) => {
  const message = `Ork needs Node 22.13 or newer, and this program runs on Node ${node}: install a newer one`
  expect(() => checkNodeVersion(versions({ node }))).toThrow(message)
})

it.each(["bun", "deno"])("accepts every %s", (runtime) => {
  expect(() => checkNodeVersion(versions({ node: "20.0.0", [runtime]: "1.0.0" }))).not.toThrow()
})

it("is the oldest Node that package.json accepts", () => {
  const { engines } = JSON.parse(readFileSync("package.json", "utf8")) as { engines: { node: string } }
  const oldest = engines.node.replace(">=", "")
  expect(() => checkNodeVersion(versions({ node: `${oldest}.0` }))).not.toThrow()
  const [major, minor] = oldest.split(".").map(Number)
  expect(() => checkNodeVersion(versions({ node: `${major}.${minor! - 1}.9` }))).toThrow(`needs Node ${oldest}`)
})
