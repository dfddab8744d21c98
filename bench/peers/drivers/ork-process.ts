// A process that runs no-op jobs until its parent tells it to stop: node ork-process.ts DATABASE FOLDER

import type * as Sdk from "../../../src/sdk/index.ts"

const BUILT = new URL("../../../dist/sdk/index.js", import.meta.url).href
const { Ork, task } = (await import(BUILT)) as typeof Sdk

const [database, folder] = process.argv.slice(2) as [string, string]
const ork = await Ork.open({ database, run: [task("noop", {}, () => null)], objects: `file:${folder}/objects` })
process.once("message", () => void ork.stop().then(() => process.exit()))
process.send!("ready")
