// Random secret of this database, created on first use. Ork signs tokens with it.

import type { Random } from "../../../core/model/ports.ts"
import { type SqlRunner, statement } from "../connection/statement.ts"

const READ = statement("secret_read", "SELECT value FROM settings WHERE name = 'secret'")

const CREATE = statement(
  "secret_create",
  "INSERT INTO settings (name, value) VALUES ('secret', :random) ON CONFLICT (name) DO NOTHING",
)

export const readSecret = async (tx: SqlRunner, random: Random): Promise<string> => {
  const [found] = await tx.run<{ value: string }>(READ)
  if (found !== undefined) return found.value
  await tx.run(CREATE, { random: random.hex128() + random.hex128() })
  return (await tx.run<{ value: string }>(READ))[0]!.value
}
