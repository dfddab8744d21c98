// Random secret of this database, created on first use. Ork signs tokens with it.

import type { Access } from "../tx.ts"

const READ = "SELECT value FROM settings WHERE name = 'secret'"

const CREATE = "INSERT INTO settings (name, value) VALUES ('secret', ?) ON CONFLICT (name) DO NOTHING"

export const readSecret = async ({ read, write }: Access): Promise<string> => {
  const found = await read(({ db }) => db.get<[string]>(READ))
  if (found !== undefined) return found[0]
  return await write((tx) => {
    tx.db.run(CREATE, tx.random.hex128() + tx.random.hex128())
    return tx.db.get<[string]>(READ)![0]
  })
}
