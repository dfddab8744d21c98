// `npm run docs [FOLDER]`: builds the documentation site into FOLDER, by default site/. Open its index.html in a browser; no server is
// needed.

import { join, resolve } from "node:path"
import { buildSite } from "./site.ts"

const repository = join(import.meta.dirname, "../..")
const target = resolve(process.argv[2] ?? join(repository, "site"))
const start = Date.now()
const { pages, deadLinks } = buildSite(repository, target)
for (const link of deadLinks) process.stderr.write(`dead link in ${link}\n`)
process.stdout.write(`${pages} pages in ${((Date.now() - start) / 1000).toFixed(1)} s: ${join(target, "index.html")}\n`)
if (deadLinks.length > 0) process.exitCode = 1
