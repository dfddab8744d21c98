// Declarations of the commands that administer an installation: keys, database, retention, diagnosis, shell completion.

import { Argument } from "commander"
import {
  collect,
  commandFamily,
  type Declare,
  jsonOption,
  withExamples,
  withServer,
  withServerOrStore,
  withStore,
} from "./options.ts"
import type { DoctorOptions } from "../doctor.ts"
import type { GcOptions } from "../gc.ts"
import type { CreateKeyOptions, KeysOptions } from "../keys.ts"
import type { MigrateOptions } from "../migrate.ts"
import { SCRIPTS, type Shell, SHELLS } from "../../completion/scripts.ts"

export const declareKeys: Declare = ({ program, context, action }) => {
  const keys = commandFamily(program, "keys", "list, create and revoke API keys")
  const load = () => import("../keys.ts")
  withServer(keys.command("list", { isDefault: true }).description("list keys").addOption(jsonOption())).action(
    action(async (options: KeysOptions) => (await load()).listKeys(context, options)),
  )
  const create = keys
    .command("create <name>")
    .description("create a key and print it; it cannot be shown again")
    .option("--scope <scope>", "permission of the key: read, trigger, worker or admin; may be repeated", collect, [])
    .addOption(jsonOption())
  withExamples(withServer(create), "ork keys create ci --scope trigger > ci.key").action(
    action(async (name: string, options: CreateKeyOptions) => (await load()).createKey(context, name, options)),
  )
  const revoke = keys
    .command("revoke")
    .addArgument(new Argument("<key>", "the id that `ork keys` shows"))
    .description("revoke a key")
    .addOption(jsonOption())
  withServer(revoke).action(action(async (id: string, options: KeysOptions) => (await load()).revokeKey(context, id, options)))
}

export const declareMigrate: Declare = ({ program, context, action }) => {
  const command = program
    .command("migrate")
    .description("create the database, or migrate it to the schema version of this Ork")
    .addOption(jsonOption())
  withExamples(withStore(command), "ork migrate --database-url postgres://ork@db/ork").action(
    action(async (options: MigrateOptions) => (await import("../migrate.ts")).migrate(context, options)),
  )
}

export const declareGc: Declare = ({ program, context, action }) => {
  const command = program
    .command("gc")
    .description("remove finished runs with their logs and outputs; with both options, runs that match either one")
    .option("--older-than <age>", "runs that finished longer ago than this, such as 30d or 12h")
    .option("--keep <n>", "all but the newest N runs of each workflow")
    .addOption(jsonOption())
  withExamples(withStore(command), "ork gc --older-than 30d --keep 100").action(
    action(async (options: GcOptions) => (await import("../gc.ts")).gc(context, options)),
  )
}

export const declareDoctor: Declare = ({ program, context, action }) => {
  const command = program
    .command("doctor")
    .description("show what this machine supports, and check the stores and the server; exit 1 if a check fails")
    .addOption(jsonOption())
  withExamples(withServerOrStore(command), "ork doctor").action(
    action(async (options: DoctorOptions) => (await import("../doctor.ts")).doctor(context, options)),
  )
}

/** Declares `ork completion SHELL`, which prints a script for the shell, and `ork __complete`, which that script calls. */
export const declareCompletion: Declare = ({ program, context, action }) => {
  const command = program
    .command("completion")
    .addArgument(new Argument("<shell>", "the shell").choices(SHELLS))
    .description("print a script that completes commands, options and names in bash, zsh or fish")
  withExamples(command, 'eval "$(ork completion bash)"').action(
    action(async (shell: Shell) => {
      context.stdout.write(SCRIPTS[shell])
      return 0
    }),
  )
  program.command("__complete [words...]", { hidden: true }).action(
    action(async (words: string[]) => {
      const { printCandidates } = await import("../../completion/candidates.ts")
      await printCandidates(context, program, words)
      return 0
    }),
  )
}
