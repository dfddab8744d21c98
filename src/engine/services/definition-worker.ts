// The worker thread of engine/services/definition-thread.ts: compiles one definition at a time.

import { parentPort } from "node:worker_threads"
import type { ParseRequest } from "./definition-thread.ts"
import { parseDefinition } from "../../definition/parse.ts"

const port = parentPort
if (port === null) throw new Error("definition-worker.ts is started by engine/services/definition-thread.ts only")

port.on("message", ({ text, options }: ParseRequest) => port.postMessage(parseDefinition(text, options)))
port.postMessage("ready")
