// Options of work that is created in a transaction of the user.

import type { TransactionOptions } from "../orkable.ts"

export type JobsInTransaction = Pick<TransactionOptions, "tx" | "onConflict">

export const isInTransaction = <Options extends object>(options: Options): options is Options & JobsInTransaction =>
  "tx" in options && options.tx !== undefined
