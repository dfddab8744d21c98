// The process that runs the function, on the database of the server. Run: node examples/sdk/client/worker.ts
import { Ork } from "ork"
import { order } from "./order.ts"

const ork = await Ork.open({ database: process.env["DATABASE_URL"] ?? "sqlite:.ork/ork.db", run: [order] })
console.log("ready")
process.on("SIGTERM", () => void ork.stop())
