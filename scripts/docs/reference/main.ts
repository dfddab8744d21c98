// `npm run docs:reference`: writes the generated parts of the reference. `reference.test.ts` checks that they are up to date.

import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { generatedPages, withRegions } from "./regions.ts"

const repository = join(import.meta.dirname, "../../..")
for (const [file, regions] of Object.entries(generatedPages())) {
  const path = join(repository, file)
  writeFileSync(path, withRegions(readFileSync(path, "utf8"), regions))
}
