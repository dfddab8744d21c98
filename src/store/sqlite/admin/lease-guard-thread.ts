// The thread of lease-guard.ts. Opens the database only at the stall limit.

import { DatabaseSync } from "node:sqlite"
import { workerData } from "node:worker_threads"
import type { GuardedLease } from "../../contract/store.ts"
import { watchMainThread } from "../../shared/lease-guard.ts"

export interface LeaseGuardData extends Pick<GuardedLease, "id" | "leaseMs" | "stallMs"> {
  path: string
}

const { id, leaseMs, stallMs, path } = workerData as LeaseGuardData

const GIVE_UP = `
UPDATE holders SET dead = 1 WHERE id = ? AND dead = 0
AND EXISTS (SELECT 1 FROM holders other WHERE other.id <> ? AND other.dead = 0 AND other.kind <> 'worker')`

const giveUp = (): boolean => {
  const db = new DatabaseSync(path)
  try {
    db.exec("PRAGMA busy_timeout = 1000; PRAGMA synchronous = FULL")
    return db.prepare(GIVE_UP).run(id, id).changes === 1
  } finally {
    db.close()
  }
}

watchMainThread({ leaseMs, stallMs }, { blocked: async () => {}, stalled: async () => giveUp() })
