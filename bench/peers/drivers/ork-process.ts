// A process that runs no-op jobs until its parent tells it to stop, and reports how many have run: node ork-process.ts DATABASE FOLDER

import type * as Sdk from "../../../src/sdk/index.ts"

const PACKED = new URL("../../../dist-packages/ork/dist/sdk/index.js", import.meta.url).href
const { Ork, task } = (await import(PACKED)) as typeof Sdk

const [database, folder] = process.argv.slice(2) as [string, string]
const REPORT_MS = 20

let ran = 0
const noop = task("noop", {}, () => {
  ran++
  return null
})
const ork = await Ork.open({ database, run: [noop], objects: `file:${folder}/objects` })
process.once("message", () => void ork.stop().then(() => process.exit()))
setInterval(() => process.send!(ran), REPORT_MS)
