// The program's own transaction: a job that exists if an order is committed, and a charge that is committed with the completion of its
// job. Run: node examples/sdk/transaction/main.ts, with DATABASE_URL=postgres://… or sqlite:FILE.
import { DatabaseSync } from "node:sqlite"
import { Ork, txTask } from "ork"
import pg from "pg"
import { z } from "zod"

const Charge = z.object({ order: z.string(), cents: z.number() })

const charge = txTask("charge", { input: Charge }, async ({ order, cents }, { tx }) => {
  await tx.query("insert into ledger values ($1, $2)", [order, cents])
  return { order }
})

const database = process.env["DATABASE_URL"] ?? "sqlite:orders.db"
const SCHEMA = "create table if not exists orders (id text); create table if not exists ledger (id text, cents int)"

/** Stores an order, and the job that charges it, in one transaction. */
const placeOrder = async (ork: Ork, order: string, cents: number) => {
  if (database.startsWith("sqlite:")) {
    const db = new DatabaseSync(database.slice("sqlite:".length))
    db.exec(SCHEMA)
    db.exec("begin immediate")
    db.prepare("insert into orders values (?)").run(order)
    const job = await ork.enqueue(charge, { order, cents }, { tx: db })
    db.exec("commit")
    db.close()
    return job
  }
  const client = new pg.Client({ connectionString: database })
  await client.connect()
  await client.query(SCHEMA)
  await client.query("begin")
  await client.query("insert into orders values ($1)", [order])
  const job = await ork.enqueue(charge, { order, cents }, { tx: client })
  await client.query("commit")
  await client.end()
  return job
}

await using ork = await Ork.open({ database, run: [charge] })
const job = await placeOrder(ork, "o1", 4200)
console.log(await job.result())
