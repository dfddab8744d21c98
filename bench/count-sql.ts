// bench/serve.ts preloads this into a server: counts every statement that node:sqlite runs and writes the count to the file ORK_COUNT_SQL.

import { writeFileSync } from "node:fs"
import { DatabaseSync, StatementSync } from "node:sqlite"

let count = 0

const counting = (prototype: object, methods: string[]): void => {
  for (const method of methods) {
    const original: unknown = Reflect.get(prototype, method)
    if (typeof original !== "function") throw new Error(`node:sqlite has no ${method}`)
    const counted = function (this: unknown, ...args: unknown[]): unknown {
      count += 1
      return Reflect.apply(original, this, args)
    }
    Reflect.set(prototype, method, counted)
  }
}

counting(DatabaseSync.prototype, ["exec"])
counting(StatementSync.prototype, ["run", "get", "all", "iterate"])
setInterval(() => writeFileSync(process.env["ORK_COUNT_SQL"]!, String(count)), 1000).unref()
