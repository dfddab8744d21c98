// Commands that administer an installation: keys, database, retention, diagnosis, shell completion.

import { Argument } from "commander"
import { type CommandSpec, JSON_OPTION, READER_OPTIONS, SERVER_OPTIONS, STORE_OPTIONS } from "./command-spec.ts"
import { SHELLS } from "../../completion/scripts.ts"

const KEY_SUBCOMMANDS: readonly CommandSpec[] = [
  {
    usage: "list",
    isDefault: true,
    description: "list keys",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    load: async () => (await import("../admin/keys.ts")).listKeys,
  },
  {
    usage: "create <name>",
    description: "create a key and print it; it cannot be shown again",
    options: [
      ["--scope <scope>", "permission of the key: read, trigger, author, worker or admin; may be repeated", "repeated"],
      ["--queue <names>", "queues that workers of the key may serve, such as fast,slow (all)"],
      ["--workflows <patterns>", "limits the key to workflows with these names, such as 'sales-*,report' (all)"],
      ["--tag <tag>", "limits the key to workflows with one of the tags; may be repeated (all)", "repeated"],
      ["--expires <duration>", "time after which the key expires, such as 90d (never)"],
      JSON_OPTION,
      ...SERVER_OPTIONS,
    ],
    examples: [
      "ork keys create ci --scope trigger > ci.key",
      "ork keys create sales --scope trigger --workflows 'sales-*' --tag sales > sales.key",
    ],
    load: async () => (await import("../admin/keys.ts")).createKey,
  },
  {
    usage: "rotate",
    argument: new Argument("<key>", "the id that `ork keys` shows"),
    description: "give a key a new secret and print it",
    options: [
      ["--overlap <duration>", "time for which the old secret works too, such as 1d (0s)"],
      JSON_OPTION,
      ...SERVER_OPTIONS,
    ],
    examples: ["ork keys rotate 0190… --overlap 1d > ci.key"],
    load: async () => (await import("../admin/keys.ts")).rotateKey,
  },
  {
    usage: "revoke",
    argument: new Argument("<key>", "the id that `ork keys` shows"),
    description: "revoke a key",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    load: async () => (await import("../admin/keys.ts")).revokeKey,
  },
]

const AUDIT_SUBCOMMANDS: readonly CommandSpec[] = [
  {
    usage: "list",
    isDefault: true,
    description: "list the newest entries",
    options: [["--limit <n>", "number of entries, up to 100 (20)"], JSON_OPTION, ...SERVER_OPTIONS],
    load: async () => (await import("../admin/audit.ts")).listAudit,
  },
  {
    usage: "export",
    description: "print the whole log as JSON lines, oldest first",
    options: [...SERVER_OPTIONS],
    examples: ["ork audit export > audit.ndjson"],
    load: async () => (await import("../admin/audit.ts")).exportAudit,
  },
  {
    usage: "verify",
    description: "check that no entry was changed, removed or inserted; exit 1 if one was",
    options: [["--file <file>", "check an export instead of the server's log"], JSON_OPTION, ...SERVER_OPTIONS],
    examples: ["ork audit verify", "ork audit verify --file audit.ndjson"],
    load: async () => (await import("../admin/audit.ts")).verifyAudit,
  },
]

const SECRET_SUBCOMMANDS: readonly CommandSpec[] = [
  {
    usage: "list",
    isDefault: true,
    argument: new Argument("[files...]", "definitions, or folders of definitions (this folder)"),
    description: "list the secrets that definitions use, and whether this machine has them; exit 1 if one is missing",
    options: [JSON_OPTION],
    examples: ["ork secrets", "ork secrets list workflows"],
    load: async () => (await import("../admin/secrets.ts")).secrets,
  },
  {
    usage: "set <name>",
    description:
      "store a secret in the folder secrets_dir; the value is read from standard input, or asked for without showing it",
    examples: ["ork secrets set API_TOKEN", "pass show api | ork secrets set API_TOKEN"],
    load: async () => (await import("../admin/set-secret.ts")).setSecret,
  },
]

export const ADMIN_COMMANDS: readonly CommandSpec[] = [
  { usage: "audit", description: "list, export and verify the audit log", subcommands: AUDIT_SUBCOMMANDS },
  { usage: "keys", description: "list, create, rotate and revoke API keys", subcommands: KEY_SUBCOMMANDS },
  {
    usage: "secrets",
    description: "list the secrets that definitions use, and store secrets",
    subcommands: SECRET_SUBCOMMANDS,
  },
  {
    usage: "migrate",
    description: "create the database, or migrate it to the schema version of this Ork; with --to, move it to Postgres",
    options: [
      ["--to <url>", "an empty Postgres database, to which everything in this SQLite database is moved"],
      JSON_OPTION,
      ...STORE_OPTIONS,
    ],
    examples: ["ork migrate --database-url postgres://ork@db/ork", "ork migrate --to postgres://ork@db/ork"],
    load: async () => (await import("../admin/migrate.ts")).migrate,
  },
  {
    usage: "backup",
    argument: new Argument("[folder]", "a new folder (ork-backup-TIME)"),
    description: "save the database, the objects and the admin key in a folder, while servers work",
    options: [
      ["--no-objects", "leave out logs, outputs and bundles, for object stores with a backup of their own"],
      JSON_OPTION,
      ...STORE_OPTIONS,
    ],
    examples: ["ork backup", "ork backup /backups/ork-monday"],
    load: async () => (await import("../admin/backup.ts")).backup,
  },
  {
    usage: "restore",
    argument: new Argument("<folder>", "a folder that `ork backup` has written"),
    description: "verify a backup and restore it into an empty database and an empty object store",
    options: [JSON_OPTION, ...STORE_OPTIONS],
    examples: ["ork restore /backups/ork-monday", "ork restore /backups/ork-monday --database-url postgres://ork@db/ork"],
    load: async () => (await import("../admin/restore.ts")).restore,
  },
  {
    usage: "gc",
    description: "remove finished runs with their logs and outputs; with both options, runs that match either one",
    options: [
      ["--older-than <age>", "runs that finished longer ago than this, such as 30d or 12h"],
      ["--keep <n>", "all but the newest N runs of each workflow"],
      JSON_OPTION,
      ...STORE_OPTIONS,
    ],
    examples: ["ork gc --older-than 30d --keep 100"],
    load: async () => (await import("../admin/gc.ts")).gc,
  },
  {
    usage: "doctor",
    description: "show what this machine supports, and check the stores and the server; exit 1 if a check fails",
    options: [JSON_OPTION, ...READER_OPTIONS],
    examples: ["ork doctor"],
    load: async () => (await import("../admin/doctor.ts")).doctor,
  },
  {
    usage: "completion",
    argument: new Argument("<shell>", "the shell").choices(SHELLS),
    description: "print a script that completes commands, options and names in bash, zsh or fish",
    examples: ['eval "$(ork completion bash)"'],
    load: async () => (await import("../admin/completion.ts")).completion,
  },
  {
    usage: "help [command...]",
    description: "show the commands, or the options of one command",
    examples: ["ork help jobs submit"],
    load: async () => (await import("../admin/help.ts")).help,
  },
  {
    usage: "version",
    description: "show the version",
    options: [JSON_OPTION],
    load: async () => (await import("../admin/help.ts")).version,
  },
  {
    usage: "__complete [words...]",
    hidden: true,
    description: "print completions; called by the script of `ork completion`",
    load: async () => (await import("../admin/completion.ts")).complete,
  },
]
