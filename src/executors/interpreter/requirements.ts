// Reads the requirements of a task as lines for pip: with included files in place and absolute paths. Their identity does not depend on
// the folder: it consists of the lines as written and a fingerprint of each local file that they name.
//
// Ork reads with rights of its own, so it reads only files in the folder of the run; pip reads everything else, with the rights of the
// task.

import { realpath, stat } from "node:fs/promises"
import { dirname, relative, resolve } from "node:path"
import { messageOf } from "../../core/values/error-message.ts"
import { isInside, openInside } from "../../objects/shared/file-inside.ts"
import { fingerprintOf } from "./fingerprint.ts"

export interface Requirements {
  lines: string[]
  /** Equal for requirements that mean the same packages. */
  identity: string[]
  /** True if the lines name local files. */
  isLocal: boolean
}

/** Included files may include others, up to this depth. */
const MAX_DEPTH = 10
const MAX_FILE_BYTES = 1024 ** 2
const MAX_LINES = 10_000

const INCLUDE = /^(?:-r\s*|--requirement[\s=]+)(\S+)$/
const EDITABLE = /^(?:-e|--editable)\b/
const ARCHIVE = /\.(?:whl|zip|tar\.gz)$/

/**
 * Reads requirements. `requirements`: lines, or the name of a file in the folder. Rejects with an error that names the line or the
 * file.
 */
export const readRequirements = async (requirements: string | readonly string[], folder: string): Promise<Requirements> => {
  const reader = new RequirementReader(await realpath(folder))
  if (typeof requirements === "string") await reader.include(requirements, reader.folder, 0)
  else await reader.add(requirements, reader.folder, 0)
  return reader.requirements()
}

class RequirementReader {
  readonly folder: string
  readonly #lines: string[] = []
  readonly #written: string[] = []
  readonly #fingerprints: string[] = []

  /** `folder`: real path of the folder of the run. */
  constructor(folder: string) {
    this.folder = folder
  }

  requirements(): Requirements {
    const [written, fingerprints] = [this.#written, this.#fingerprints]
    return { lines: this.#lines, identity: [...written, ...fingerprints], isLocal: fingerprints.length > 0 }
  }

  /** Adds lines, and those of included files. `from`: folder that included files are relative to. */
  async add(lines: readonly string[], from: string, depth: number): Promise<void> {
    for (const line of lines) {
      const text = line.replace(/(?:^|\s)#.*$/, "").trim()
      if (text === "") continue
      if (EDITABLE.test(text)) {
        throw new Error(`requirements: \`${text}\` is an editable install, which the folder of one run cannot keep; remove -e`)
      }
      const included = INCLUDE.exec(text)?.[1]
      if (included !== undefined) {
        if (depth === MAX_DEPTH) throw new Error(`requirements: ${included} is included more than ${MAX_DEPTH} levels deep`)
        await this.include(included, from, depth + 1)
        continue
      }
      if (this.#lines.length === MAX_LINES) throw new Error(`requirements: there are more than ${MAX_LINES} lines`)
      this.#written.push(text)
      this.#lines.push(await this.#withAbsolutePaths(text))
    }
  }

  async include(name: string, from: string, depth: number): Promise<void> {
    const file = resolve(from, name)
    await this.add(await this.#linesOf(file), dirname(file), depth)
  }

  /** Returns the lines of a file; a line that ends with a backslash continues. */
  async #linesOf(file: string): Promise<string[]> {
    const opened = await openInside(this.folder, file).catch((error: unknown) => {
      throw new Error(`requirements: the file ${file} cannot be read: ${messageOf(error)}`, { cause: error })
    })
    if (opened === null) {
      throw new Error(`requirements: the file ${file} cannot be read; is it beside the definition, and in \`include\`?`)
    }
    try {
      if (opened.size > MAX_FILE_BYTES) throw new Error(`requirements: the file ${file} is larger than 1 MiB`)
      const { bytesRead, buffer } = await opened.file.read(Buffer.alloc(opened.size), 0, opened.size, 0)
      const text = buffer.toString("utf8", 0, bytesRead)
      return text.replaceAll(/\\\r?\n/g, " ").split(/\r?\n/)
    } finally {
      await opened.file.close()
    }
  }

  /** Makes the paths in a line absolute, because pip runs elsewhere. */
  async #withAbsolutePaths(line: string): Promise<string> {
    const words: string[] = []
    for (const word of line.split(/([\s=]+)/)) words.push(await this.#withAbsolutePath(word, line.startsWith("-")))
    return words.join("")
  }

  async #withAbsolutePath(word: string, isOption: boolean): Promise<string> {
    const name = word.replace(/^file:(?:\/\/)?/, "")
    if (!isOption && !name.includes("/") && !ARCHIVE.test(name)) return word
    if (name.trim() === "" || name.startsWith("-")) return word
    const path = resolve(this.folder, name)
    const info = await stat(path).catch(() => null)
    if (info === null) return word
    const real = await realpath(path)
    // The content of other files is not Ork's to read: their size and time stand for it.
    const fingerprint = isInside(real, this.folder)
      ? await fingerprintOf(this.folder, real, relative(this.folder, path))
      : JSON.stringify([path, info.size, info.mtimeMs])
    this.#fingerprints.push(fingerprint)
    return name === word ? path : word
  }
}
