// Writes FILE.br and FILE.gz for each text file of the build, so that the server compresses nothing at run time.

import { readFileSync, readdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { brotliCompressSync, constants, gzipSync } from "node:zlib"
import type { Plugin } from "vite"

const TEXT = /\.(?:js|css|html|svg|json)$/
/** Smaller files gain nothing. */
const LEAST_BYTES = 1024

export const precompress = (): Plugin => {
  let folder = ""
  return {
    name: "ork-precompress",
    apply: "build",
    configResolved(config) {
      folder = join(config.root, config.build.outDir)
    },
    closeBundle() {
      for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !TEXT.test(entry.name)) continue
        const file = join(entry.parentPath, entry.name)
        const bytes = readFileSync(file)
        if (bytes.length < LEAST_BYTES) continue
        writeFileSync(`${file}.gz`, gzipSync(bytes, { level: 9 }))
        // Quality 11 takes seconds for the layout engine and saves two percent.
        writeFileSync(`${file}.br`, brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }))
      }
    },
  }
}
