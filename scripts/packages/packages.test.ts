import { mkdirSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { expect, test } from "vitest"
import { temporaryFolder } from "../../test/support/ork.ts"
import { bundleOf } from "./bundled.ts"
import { closureOf, packageOf, specifiersOf } from "./closure.ts"
import { importsOf, withImports } from "./imports.ts"
import { manifestOf, type RootManifest } from "./manifest.ts"

const folderWith = (files: { [path: string]: string }): string => {
  const folder = temporaryFolder()
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), text)
  }
  return folder
}

const CODE = `import { z } from "zod"
import "./side.js"
export * from "./other.js"
const text = \`import { z } from "zod"\`
const lazy = async () => await import("pg")
const cel = require("@bufbuild/cel/ext")
const name = import(text)
`

test("imports are found in code, and not in texts", () => {
  const names = importsOf("a.js", CODE).map(({ specifier }) => specifier)
  expect(names).toEqual(["zod", "./side.js", "./other.js", "pg", "@bufbuild/cel/ext"])
})

test("only the imports of bundled libraries are changed", () => {
  const changed = withImports("a/b/c.js", CODE, (specifier) => bundleOf(specifier, "a/b/c.js"))
  expect(changed).toContain('import { z } from "../../bundled/zod.js"\n')
  expect(changed).toContain('require("../../bundled/cel-ext.cjs")')
  expect(changed).toContain('const text = `import { z } from "zod"`')
  expect(changed).toContain('await import("pg")')
  expect(bundleOf("zod", "main.js")).toBe("./bundled/zod.js")
})

test("a package contains what its entries import, threads that they name, and no more", () => {
  const root = folderWith({
    "index.js": 'import "./sub/a.js"\n',
    "sub/a.js": 'new Worker(new URL("./thread.js", import.meta.url))\nmoduleNextTo(import.meta.url, "./other-thread")\n',
    "sub/thread.js": 'import pg from "pg"\n',
    "sub/other-thread.js": 'import "node:fs"\n',
    "unused.js": "",
    "index.d.ts": 'export type { A } from "./sub/a.ts"\n',
    "sub/a.d.ts": "export type A = 1\n",
  })
  const files = closureOf(root, ["index.js", "index.d.ts"])
  expect(files.toSorted()).toEqual(
    ["index.d.ts", "index.js", "sub/a.d.ts", "sub/a.js", "sub/other-thread.js", "sub/thread.js"].toSorted(),
  )
  expect([...specifiersOf(root, files)]).toEqual(["pg"])
})

test("a manifest has the versions of the checkout, and optional packages as peers", () => {
  const root: RootManifest = {
    version: "1.2.3",
    license: "Apache-2.0",
    engines: { node: ">=22" },
    exports: {},
    dependencies: { fastify: "^5", pg: "^8", "@aws-sdk/client-s3": "^3" },
  }
  const fields = { name: "p", description: "d", bin: {}, exports: {}, includes: ["pg"] }
  expect(manifestOf(root, fields, ["fastify", "pg", "@aws-sdk/client-s3", "zod"])).toMatchObject({
    version: "1.2.3",
    dependencies: { fastify: "^5", pg: "^8" },
    peerDependencies: { "@aws-sdk/client-s3": "^3" },
    peerDependenciesMeta: { "@aws-sdk/client-s3": { optional: true } },
  })
  expect(() => manifestOf(root, fields, ["left-pad/x.js"])).toThrow("dist/ imports left-pad, which is not in the dependencies")
  expect(packageOf("@scope/name/path")).toBe("@scope/name")
})
