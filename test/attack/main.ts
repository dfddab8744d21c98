// usage: npm run attack [-- --store sqlite|postgres] [-- --user root|nobody] [-- --only TEXT]
// Attacks a server that it starts, on both stores, as root and as the user nobody. Prints one line per attack, then the counts; exits
// with 1 if an attack succeeded.

import { parseArgs } from "node:util"
import type { Attack } from "./attack.ts"
import { codeAttacks } from "./attacks/code.ts"
import { keyAttacks } from "./attacks/keys.ts"
import { requestAttacks } from "./attacks/requests.ts"
import { secretAttacks } from "./attacks/secrets.ts"
import { stallAttacks } from "./attacks/stalls.ts"
import { taskAttacks } from "./attacks/tasks.ts"
import { nobodyCanRun, Target } from "./target.ts"
import { createDatabase } from "../support/postgres.ts"

const { values } = parseArgs({
  options: { store: { type: "string" }, user: { type: "string" }, only: { type: "string" }, quick: { type: "boolean" } },
})

const ATTACKS: Attack[] = [...codeAttacks, ...secretAttacks, ...taskAttacks, ...keyAttacks, ...requestAttacks, ...stallAttacks]

const isRoot = process.getuid?.() === 0
const users = (values.user === undefined ? ["root", "nobody"] : [values.user]).filter((user) => {
  if (!isRoot) return user !== "root"
  if (user === "root" || nobodyCanRun()) return true
  console.log("skipped  the user nobody cannot run this checkout: clone it into a folder that everybody can enter")
  return false
})
const stores = values.store === undefined ? ["sqlite", "postgres"] : [values.store]
const chosen = ATTACKS.filter(
  ({ name, quick }) => (values.only === undefined || name.includes(values.only)) && (values.quick !== true || quick === true),
)

let held = 0
const succeeded: string[] = []
for (const store of stores) {
  for (const user of users) {
    const created = store === "postgres" ? await createDatabase() : null
    const target = await Target.start({ database: created?.url ?? "sqlite", asNobody: isRoot && user === "nobody" })
    for (const { name, run } of chosen) {
      const begun = performance.now()
      const outcome = await run(target).catch((error: unknown) => `the attack could not be carried out: ${String(error)}`)
      const lost = outcome ?? (target.alive ? null : "the server ended")
      const line = `${store} ${isRoot ? user : "user"}  ${name}  ${Math.round(performance.now() - begun)} ms`
      if (lost === null) held++
      else succeeded.push(`${line}: ${lost}`)
      console.log(lost === null ? `held       ${line}` : `SUCCEEDED  ${line}: ${lost}`)
      if (!target.alive) break
    }
    await target.stop()
    await created?.drop()
  }
}
for (const line of succeeded) console.log(`SUCCEEDED  ${line}`)
console.log(`${held + succeeded.length} attacks, ${succeeded.length} succeeded`)
process.exit(succeeded.length === 0 ? 0 : 1)
