// The code blocks of the documentation.

import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { REPO } from "./ork.ts"

export interface CodeBlock {
  /** `docs/guide.md:12`: the file and the line of the fence. */
  place: string
  file: string
  language: string
  text: string
}

export const DOCUMENTS: readonly string[] = [
  "README.md",
  "CONTRIBUTING.md",
  "SECURITY.md",
  "CHANGELOG.md",
  ...globSync("docs/**/*.md", { cwd: REPO }).toSorted(),
]

export const FENCE = /^( *)```(\S*)\n([\s\S]*?)^\1```$/gm

export const codeBlocks = (): CodeBlock[] =>
  DOCUMENTS.flatMap((file) => {
    const document = readFileSync(join(REPO, file), "utf8")
    return [...document.matchAll(FENCE)].map(({ index, 1: indent = "", 2: language = "", 3: text = "" }) => ({
      place: `${file}:${document.slice(0, index).split("\n").length}`,
      file,
      language,
      text: text.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
    }))
  })
