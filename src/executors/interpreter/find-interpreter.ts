// Finds the Python that `interpreter` of a task names: a virtualenv or another folder with bin/python, a program, or the name of a program
// in PATH. Only looks at files: the program runs later, as the user of the task.

import { existsSync, statSync } from "node:fs"
import { dirname, join, resolve } from "node:path"

export interface Interpreter {
  /** Absolute path. */
  program: string
  /** Folder with `python`, `python3` and installed programs; null if the program does not have one for itself. */
  bin: string | null
  /** Folder of the virtualenv that the program belongs to; null if it belongs to none. */
  virtualenv: string | null
}

/** Places to search: the folder of the definition, and the PATH of the task. */
export interface SearchPlaces {
  folder: string
  path: string
}

/** Throws an error that says what is missing and what to do. */
export const findInterpreter = (name: string, { folder, path }: SearchPlaces): Interpreter => {
  const place = resolve(folder, name)
  const found = statSync(place, { throwIfNoEntry: false })
  if (found?.isDirectory() === true) return inFolder(name, place)
  if (found?.isFile() === true) return fromProgram(place)
  if (isPath(name)) throw new Error(`there is no Python at ${place} (interpreter: ${name}); ${advice(place)}`)
  for (const each of path.split(":")) {
    const program = resolve(folder, each, name)
    if (each !== "" && statSync(program, { throwIfNoEntry: false })?.isFile() === true) return fromProgram(program)
  }
  throw new Error(
    `there is no program ${name} in PATH, and no virtualenv ${place} (interpreter: ${name}); install it, or give the path of a Python or a virtualenv`,
  )
}

/** Returns whether a text is a path, and not the name of a program. */
export const isPath = (name: string): boolean => name.includes("/") || name.startsWith(".")

const inFolder = (name: string, folder: string): Interpreter => {
  const bin = join(folder, "bin")
  const program = join(bin, "python")
  if (!existsSync(program)) {
    throw new Error(`there is no ${program}, or the program that it links to is gone (interpreter: ${name}); ${advice(folder)}`)
  }
  return { program, bin, virtualenv: isVirtualenv(folder) ? folder : null }
}

const fromProgram = (program: string): Interpreter => {
  const bin = dirname(program)
  const folder = dirname(bin)
  return isVirtualenv(folder) ? { program, bin, virtualenv: folder } : { program, bin: null, virtualenv: null }
}

const isVirtualenv = (folder: string): boolean => existsSync(join(folder, "pyvenv.cfg"))

const advice = (folder: string): string =>
  `on the machine that runs the task, create a virtualenv with \`python3 -m venv ${folder}\`, or name another interpreter`
