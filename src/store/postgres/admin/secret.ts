// A random text of this database's own, made when it is first asked for: what tokens are signed with.

import type { Random } from "../../../core/model/ports.ts"
import { type SqlRunner, statement } from "../connection/connection.ts"

const READ = statement("secret_read", "SELECT value FROM settings WHERE name = 'secret'")

const MAKE = statement(
  "secret_make",
  "INSERT INTO settings (name, value) VALUES ('secret', :random) ON CONFLICT (name) DO NOTHING",
)

export const readSecret = async (tx: SqlRunner, random: Random): Promise<string> => {
  const [found] = await tx.run<{ value: string }>(READ)
  if (found !== undefined) return found.value
  await tx.run(MAKE, { random: random.hex128() + random.hex128() })
  return (await tx.run<{ value: string }>(READ))[0]!.value
}
