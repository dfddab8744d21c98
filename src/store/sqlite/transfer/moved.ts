// The mark of a database that was moved to another one: a table with its address. Stores on it are rejected, so that no run and no tick
// happens in both.

import { StoreUnavailable } from "../../contract/errors.ts"
import type { Database } from "../connection/database.ts"

const FIND = "SELECT name FROM sqlite_schema WHERE name = 'moved'"

export const markMoved = (db: Database, address: string): void => {
  db.exec("CREATE TABLE moved (address TEXT NOT NULL) STRICT")
  db.run("INSERT INTO moved VALUES (?)", address)
}

export const rejectMoved = (db: Database): void => {
  if (db.get(FIND) === undefined) return
  const [address] = db.get<[string]>("SELECT address FROM moved")!
  throw new StoreUnavailable(db.where, `it was moved to ${address} by \`ork migrate\`; set ORK_DATABASE_URL to that address`)
}
