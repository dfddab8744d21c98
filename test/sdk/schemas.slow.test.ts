// Schemas of valibot and arktype as inputs, with the real libraries: types, validation at enqueue, and the values that handlers get.
// They come from npm into a folder of the test, because nothing else of Ork needs them.

import { execFile } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, expect, it } from "vitest"
import { install } from "../packages/installed.ts"
import { REPO } from "../support/ork.ts"

const run = promisify(execFile)

/** `schema`: of an object with a number `cents`, at least 1, and a text `currency` that is `EUR` if it is missing. */
const app = (imports: string, schema: string): string => `
${imports}
import { InvalidInputError, task } from "ork"
import { testOrk } from "ork/test"

const charge = task("charge", { input: ${schema} }, ({ cents, currency }) => {
  const sum: number = cents
  const unit: string = currency
  return sum + " " + unit
})
await using ork = await testOrk({ run: [charge] })
const job = await ork.enqueue(charge, { cents: 5 })
await ork.advance("1s")
console.log(await job.result())
// @ts-expect-error cents is a number
await ork.enqueue(charge, { cents: "5" }).catch((error) => console.log(error instanceof InvalidInputError, error.issues[0].path))
await ork.enqueue(charge, { cents: 0 }).catch((error) => console.log(error instanceof InvalidInputError, error.issues[0].path))
`

const LIBRARIES = {
  valibot: app(
    'import * as v from "valibot"',
    'v.object({ cents: v.pipe(v.number(), v.minValue(1)), currency: v.optional(v.string(), "EUR") })',
  ),
  arktype: app('import { type } from "arktype"', `type({ cents: "number >= 1", currency: "string = 'EUR'" })`),
}

const TSCONFIG = {
  compilerOptions: { module: "nodenext", target: "esnext", strict: true, noEmit: true, skipLibCheck: true, types: ["node"] },
  include: ["*.ts"],
}

const root = mkdtempSync(join(tmpdir(), "ork-schemas-"))
const folder = join(root, "app")

afterAll(() => rmSync(root, { recursive: true, force: true }))

beforeAll(async () => {
  await install(folder, ...Object.keys(LIBRARIES))
  mkdirSync(join(folder, "node_modules/@types"), { recursive: true })
  symlinkSync(REPO, join(folder, "node_modules/ork"))
  symlinkSync(join(REPO, "node_modules/@types/node"), join(folder, "node_modules/@types/node"))
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(TSCONFIG))
  for (const [name, text] of Object.entries(LIBRARIES)) writeFileSync(join(folder, `${name}.ts`), text)
}, 120_000)

it("programs with their schemas compile, and a wrong input does not", { timeout: 240_000 }, async () => {
  await run(join(REPO, "node_modules/.bin/tsc"), [], { cwd: folder })
})

it.each(Object.keys(LIBRARIES))("inputs are checked and completed by a schema of %s", { timeout: 60_000 }, async (name) => {
  const { stdout } = await run(process.execPath, [`${name}.ts`], { cwd: folder })
  expect(stdout).toBe("5 EUR\ntrue cents\ntrue cents\n")
})
