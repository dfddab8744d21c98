// Finds the words of commands that may name files beside the definition. Whether they exist is not known here; the bundle contains those
// that do.

import type { Path } from "../../model/problems.ts"
import { type CommandAnalysis, UNKNOWN, type Word } from "./code-arguments.ts"

/** A word of a command that may name a file beside the definition. */
export interface CommandFile {
  /** Path of the command in the definition. */
  path: Path
  /** Relative path, in which `*` stands for what is not known; may begin with `..`. */
  file: string
  /** The command runs the file as a program or a script, rather than passing its name to a program. */
  isRun: boolean
  /** The word contains a slash, so that it is a path for sure. */
  isPath: boolean
}

export type MentionedFile = Omit<CommandFile, "path">

/** Commands whose arguments are texts, or files that need not exist. */
const NOT_FILES = new Set([
  "echo",
  "printf",
  "export",
  "mkdir",
  "rm",
  "rmdir",
  "touch",
  "test",
  "[",
  "[[",
  "find",
  "cd",
  "pushd",
])
const CHANGES_FOLDER = new Set(["cd", "pushd"])

interface Command<W extends Word> {
  words: readonly W[]
  inputs?: readonly W[]
  analysis: CommandAnalysis<W>
}

/** Returns the files that the commands of a script may name. After `cd`, whose effect may end earlier, no file is known to be run. */
export const mentionedFiles = <W extends Word>(commands: readonly Command<W>[]): MentionedFile[] => {
  const found: MentionedFile[] = []
  let folder = ""
  for (const command of commands) {
    const { words, analysis } = command
    const moved = CHANGES_FOLDER.has(words[analysis.program]?.text ?? "") ? (words[analysis.program + 1]?.text ?? "") : null
    if (moved === null) {
      found.push(
        ...wordsOf(command).map((word) => ({ ...word, file: joinPath(folder, word.file), isRun: word.isRun && folder === "" })),
      )
    } else if (localPath(moved)?.includes(UNKNOWN) === false) {
      folder = joinPath(folder, moved)
      found.push({ file: folder, isRun: false, isPath: !commands.some(createsFolders) })
    } else return found
  }
  return found
}

const createsFolders = <W extends Word>({ words, analysis }: Command<W>): boolean =>
  ["mkdir", "git", "tar", "unzip"].includes(words[analysis.program]?.text ?? "")

const wordsOf = <W extends Word>({ words, inputs = [], analysis: { program, script } }: Command<W>): MentionedFile[] => {
  const first = words[program]
  const isRun = (word: W): boolean => word === script || (word === first && word.text.includes("/"))
  const rest = first !== undefined && NOT_FILES.has(first.text) ? [] : words.slice(program + 1)
  const candidates = [...(first?.text.includes("/") === true ? [first] : []), ...rest, ...inputs]
  return candidates.flatMap((word) => {
    const file = localPath(word.text)
    return file === null || (file.includes(UNKNOWN) && !isRun(word))
      ? []
      : [{ file: file.replaceAll(UNKNOWN, "*"), isRun: isRun(word), isPath: file.includes("/") }]
  })
}

/** Returns the value of an option, a file after `@`, or the word itself; null when that is not a relative path. */
const localPath = (text: string): string | null => {
  if (text.startsWith("-") && !text.includes("=")) return null
  const file = (text.startsWith("-") ? text.slice(text.indexOf("=") + 1) : text).replace(/^@/, "")
  const isLocal = file !== "" && file.length < 1000 && !/^[/~\0$]|:\/\/|[\n\\]/.test(file)
  return isLocal && /[^./*]/.test(file) ? file : null
}

/** Resolves a path that is relative to `folder`, which is relative itself. The result may begin with `..`. */
export const joinPath = (folder: string, file: string): string => {
  const parts: string[] = []
  for (const part of `${folder}/${file}`.split("/")) {
    if (part === "" || part === ".") continue
    if (part === ".." && parts.length > 0 && parts.at(-1) !== "..") parts.pop()
    else parts.push(part)
  }
  return parts.join("/")
}
