// `ork init [FOLDER]`: creates a first workflow, with the schema that editors complete and check it with, or a program in TypeScript.

import { mkdir, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { typescriptFiles } from "./init-typescript.ts"
import { schemaText } from "./schema.ts"
import type { Context } from "../../target/context.ts"
import { print } from "../../terminal/output.ts"

const HELLO = `# yaml-language-server: $schema=.ork-schema.json
name: hello
description: Greets somebody, and counts the letters of the name
params:
  who: { type: string, default: world }
# schedule: "0 6 * * *"     # every day at 6:00 UTC, on a server: ork serve --dir .
tasks:
  greet:
    command: echo "Hello, \${{ params.who }}!"
  count:
    depends_on: [greet]
    retries: 2
    command: |
      name=\${{ params.who }}
      echo "{\\"letters\\": \${#name}}"
`

const FILES = { "hello.yaml": HELLO, ".gitignore": ".ork/\n" } as const
const SCHEMA_FILE = ".ork-schema.json"

export interface InitOptions {
  typescript?: boolean
}

export const init = async (context: Context, folder: string | undefined, { typescript }: InitOptions): Promise<number> => {
  const target = resolve(context.cwd, folder ?? ".")
  const files = typescript === true ? typescriptFiles(context.version()) : { ...FILES, [SCHEMA_FILE]: `${schemaText()}\n` }
  await mkdir(target, { recursive: true })
  for (const [name, text] of Object.entries(files)) {
    const created = await createFile(join(target, name), text)
    print(context, `${created ? "created" : "kept"} ${join(folder ?? ".", name)}`)
  }
  const change = folder === undefined ? "" : `cd ${folder} && `
  const next = typescript === true ? PROGRAM_COMMANDS : WORKFLOW_COMMANDS
  print(context, `\n${next.map(([label, command]) => `${label.padEnd(12)} ${change}${command}`).join("\n")}`)
  return 0
}

const WORKFLOW_COMMANDS = [
  ["run it:", "ork run hello.yaml"],
  ["serve it:", "ork serve --dir ."],
] as const
const PROGRAM_COMMANDS = [
  ["install it:", "npm install"],
  ["test it:", "npm test"],
  ["run it:", "npm run dev"],
] as const

/** Returns false if the file exists. */
const createFile = async (path: string, text: string): Promise<boolean> => {
  try {
    await writeFile(path, text, { flag: "wx" })
    return true
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false
    throw error
  }
}
