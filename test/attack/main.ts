// usage: npm run attack [-- --store sqlite|postgres] [-- --user root|nobody] [-- --only TEXT] [-- --values NUMBER]
// Attacks servers that it starts: on SQLite and on a Postgres of its own, as root and as the user nobody; without root, as its own user.
// Prints one line per attack with its store and user, by how much /health was delayed, the memory that was added, and the time it took.
// Ends with the counts, and with 1 if an attack succeeded.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { type Attack, carryOut } from "./attack.ts"
import { auditAttacks } from "./attacks/audit.ts"
import { codeAttacks, hostileValueTest } from "./attacks/code.ts"
import { keyAttacks } from "./attacks/keys.ts"
import { permissionAttacks } from "./attacks/permissions.ts"
import { pageAttacks } from "./attacks/pages.ts"
import { policyAttacks } from "./attacks/policy.ts"
import { requestAttacks } from "./attacks/requests.ts"
import { secretAttacks } from "./attacks/secrets.ts"
import { stallAttacks } from "./attacks/stalls.ts"
import { taskAttacks } from "./attacks/tasks.ts"
import { workerAttacks } from "./attacks/workers.ts"
import { ORK, programForNobody } from "../support/program-for-nobody.ts"
import { Target } from "./target.ts"
import { ask, createDatabase } from "../support/components/postgres.ts"

const { values: flags } = parseArgs({
  options: {
    store: { type: "string" },
    user: { type: "string" },
    only: { type: "string" },
    values: { type: "string", default: "10000" },
    quick: { type: "boolean", default: false },
  },
})

const ATTACKS: Attack[] = [
  ...secretAttacks,
  ...taskAttacks,
  ...codeAttacks,
  ...keyAttacks,
  ...permissionAttacks,
  ...workerAttacks,
  ...requestAttacks,
  ...policyAttacks,
  ...auditAttacks,
  ...pageAttacks,
  ...stallAttacks,
]

const isChosen = ({ name, quick }: Pick<Attack, "name" | "quick">): boolean =>
  (flags.only === undefined || name.includes(flags.only)) && (!flags.quick || quick === true)

const isRoot = process.getuid?.() === 0
const users = (isRoot ? ["root", "nobody"] : ["user"]).filter((user) => flags.user === undefined || user === flags.user)
const stores = ["sqlite", "postgres"].filter((store) => flags.store === undefined || store === flags.store)

const succeeded: string[] = []
const counts = new Map<string, { held: number; succeeded: number }>()

const report = (where: string, text: string, achieved: string | null): void => {
  const count = counts.get(where) ?? { held: 0, succeeded: 0 }
  counts.set(where, count)
  if (achieved === null) {
    count.held++
    console.log(`held       ${where}  ${text}`)
  } else {
    count.succeeded++
    succeeded.push(`${where}  ${text}: ${achieved}`)
    console.log(`SUCCEEDED  ${succeeded.at(-1)}`)
  }
}

const newFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-attack-program-"))
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const hasTables = async (url: string): Promise<boolean> =>
  (await ask(url, "SELECT 1 FROM pg_tables WHERE tablename = 'runs'")).length > 0

const secondsSince = (begun: number): string => `${((performance.now() - begun) / 1000).toFixed(1)} s`

if (isChosen(hostileValueTest)) {
  const begun = performance.now()
  const achieved = await hostileValueTest.run(Number(flags.values))
  report("shells", `${hostileValueTest.name} (${flags.values})  ${secondsSince(begun)}`, achieved)
}
const chosen = ATTACKS.filter(isChosen)
for (const store of chosen.length === 0 ? [] : stores) {
  for (const user of users) {
    const databases = store === "postgres" ? [await createDatabase(), await createDatabase()] : []
    const asNobody = user === "nobody"
    const options = { program: asNobody ? programForNobody(newFolder) : ORK, asNobody, flags: ["--queue", "default"] }
    const target = await Target.start({ ...options, database: databases[0]?.url ?? "sqlite" })
    target.idle = await Target.start({ ...options, database: databases[1]?.url ?? "sqlite" })
    if (store === "postgres" && !(await hasTables(databases[0]!.url))) throw new Error("the server does not use Postgres")
    for (const attack of chosen) {
      const begun = performance.now()
      const { achieved, delayMs, grownMb } = await carryOut(attack, target)
      const text = `${attack.name}  +${Math.round(delayMs)} ms  +${Math.round(grownMb)} MB  ${secondsSince(begun)}`
      report(`${store} ${user}`, text, achieved)
      if (!target.alive) break
    }
    await target.stop()
    for (const database of databases) await database.drop()
  }
}
console.log("")
for (const line of succeeded) console.log(`SUCCEEDED  ${line}`)
const total = [...counts.values()].reduce((sum, { held }) => sum + held, succeeded.length)
const parts = [...counts].map(([where, count]) => `${where} ${count.held + count.succeeded}`)
console.log(`${total} attacks, ${succeeded.length} succeeded (${parts.join(", ")})`)
process.exit(succeeded.length === 0 ? 0 : 1)
