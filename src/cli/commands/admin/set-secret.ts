// `ork secrets set NAME`: stores a secret in the folder `secrets_dir`. The value comes from standard input, or from a prompt that does not
// show it; it is never an argument, which process lists and the history of the shell would show.

import { randomBytes } from "node:crypto"
import { rename, rm } from "node:fs/promises"
import { join, resolve } from "node:path"
import { text as readAll } from "node:stream/consumers"
import type { Context } from "../../target/context.ts"
import { loadConfig } from "../../target/load-config.ts"
import { InputError } from "../../terminal/errors.ts"
import { readHidden } from "../../terminal/hidden-input.ts"
import { print } from "../../terminal/output.ts"
import { messageOf } from "../../../core/values/error-message.ts"
import { SECRET_NAME } from "../../../core/settings/secret-uris.ts"
import { createDurableFolder, syncFolder, writeDurableFile } from "../../../objects/shared/durable-file.ts"

export const setSecret = async (context: Context, name: string): Promise<number> => {
  const { secretsDir } = await loadConfig(context, {})
  if (!SECRET_NAME.test(name)) {
    throw new InputError(
      `${JSON.stringify(name)} is not a valid name of a secret: use at most 128 letters, digits, "_", "." and "-", beginning with a letter, a digit or "_"`,
    )
  }
  if (secretsDir === "") {
    throw new InputError("there is no folder for secrets: set secrets_dir in ork.yaml, or ORK_SECRETS_DIR")
  }
  const stdin = context.stdin()
  const value = stdin.isTTY
    ? await readHidden(stdin, context.stderr, `value of ${name}: `)
    : (await readAll(stdin)).replace(/\r?\n$/, "")
  if (value === "") throw new InputError(`the value of ${name} is empty; nothing was stored`)
  const folder = resolve(context.cwd, secretsDir)
  try {
    await store(folder, name, value)
  } catch (error) {
    throw new InputError(`${name} could not be stored in ${folder}: ${messageOf(error)}`)
  }
  print(context, `${name} is stored in ${folder}`)
  return 0
}

/** Replaces the file by a rename, so that a task that starts at the same time reads the old value or the new one. */
const store = async (folder: string, name: string, value: string): Promise<void> => {
  await createDurableFolder(folder)
  const draft = join(folder, `.${name}.${randomBytes(6).toString("hex")}`)
  try {
    await writeDurableFile(draft, value)
    await rename(draft, join(folder, name))
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
  await syncFolder(folder)
}
