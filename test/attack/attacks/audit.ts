// Attacks on the audit log: changes without an entry, and changes of the log itself.

import { DatabaseSync } from "node:sqlite"
import { join } from "node:path"
import { ask } from "../../support/components/postgres.ts"
import type { Attack } from "../attack.ts"
import { onFreshServer } from "../fresh-server.ts"
import { pause, type Target } from "../target.ts"

interface Entry {
  id: number
  action: string
  target: string
  result: string
  address: string
  actor: string | null
}

const newest = async (target: Target, limit = 20): Promise<Entry[]> =>
  ((await target.call("GET", `/audit?limit=${limit}`)).body["items"] as Entry[] | undefined) ?? []

/** Runs a statement on the database of the server, as its operator could. */
const change = async ({ options: { database }, folder }: Target, sql: string): Promise<void> => {
  if (database !== "sqlite") return void (await ask(database, sql.replace("audit", "ork.audit")))
  const file = new DatabaseSync(join(folder, ".ork/ork.db"), { timeout: 10_000 })
  file.exec(sql)
  file.close()
}

const EXPECTED = ["key.create ok", "workflow.deploy ok", "workflow.remove FORBIDDEN", "session.start ok", "key.remove ok"]

export const auditAttacks: Attack[] = [
  {
    name: "audit: a change, a refusal or a sign-in leaves no entry",
    run: (target) =>
      onFreshServer(target, {}, async (fresh) => {
        const { id, key } = await fresh.newKey({ name: "watched", scopes: ["read"] })
        await fresh.deploy({ name: "audited", tasks: { a: { command: "true" } } })
        await fresh.call("DELETE", "/workflows/audited", { key })
        await fresh.call("POST", "/ui/sign-in", { key: null, body: { key } })
        await fresh.call("DELETE", `/keys/${id}`)
        // The entry of a refusal may follow the response.
        for (let i = 0; i < 40 && (await newest(fresh)).length < EXPECTED.length; i++) await pause(50)
        const entries = await newest(fresh)
        const missing = EXPECTED.filter((text) => !entries.some(({ action, result }) => `${action} ${result}` === text))
        if (missing.length > 0) return `there is no entry of ${missing.join(", ")}`
        return entries.every(({ address, actor }) => address !== "" && actor !== null)
          ? null
          : "an entry has no address or name"
      }),
  },
  {
    name: "audit: a changed or removed entry is not noticed",
    run: (target) =>
      onFreshServer(target, {}, async (fresh) => {
        for (const name of ["a", "b", "c", "d"]) await fresh.deploy({ name, tasks: { a: { command: "true" } } })
        const verify = () => fresh.ork(["audit", "verify"])
        const intact = await verify()
        if (intact.code !== 0) throw new Error(`the log is broken before the attack: ${intact.stdout}${intact.stderr}`)
        const [, second, third] = (await newest(fresh)) as [Entry, Entry, Entry]
        await change(fresh, `UPDATE audit SET target = 'nothing' WHERE seq = ${second.id}`)
        if ((await verify()).code === 0) return "a changed entry was not noticed"
        await change(fresh, `UPDATE audit SET target = '${second.target}' WHERE seq = ${second.id}`)
        if ((await verify()).code !== 0) throw new Error("the log could not be restored")
        await change(fresh, `DELETE FROM audit WHERE seq = ${third.id}`)
        return (await verify()).code === 0 ? "a removed entry was not noticed" : null
      }),
  },
]
