// The built command on an object store that truncates objects while the file ORK_TRUNCATE exists.

import { existsSync } from "node:fs"
import { withTruncatedObjects } from "./faulty-objects.ts"
import { runBuilt } from "../built.ts"

const file = process.env["ORK_TRUNCATE"]!

await runBuilt((context) => withTruncatedObjects(context, () => existsSync(file)))
