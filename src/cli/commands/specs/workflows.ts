// Commands for definitions and deployed workflows.

import { Argument } from "commander"
import type { ImportSource } from "../workflows/import.ts"
import {
  type CommandSpec,
  JSON_OPTION,
  LIMIT_OPTION,
  type OptionSpec,
  PARAM_OPTIONS,
  RUN_ARGUMENT,
  SERVER_OPTIONS,
} from "./command-spec.ts"

const importSpec = (
  source: ImportSource,
  description: string,
  example: string,
  options: readonly OptionSpec[] = [],
): CommandSpec => ({
  usage: `${source} <file>`,
  description: `convert ${description}; - reads standard input`,
  options: [
    ["--out <folder>", "folder for the new files", { default: "." }],
    ["--plan", "report only, and write nothing"],
    ...options,
    JSON_OPTION,
  ],
  examples: [example],
  load: async () => (await import("../workflows/import.ts")).importFrom(source),
})

export const WORKFLOW_COMMANDS: readonly CommandSpec[] = [
  {
    usage: "init [folder]",
    description: "create a first workflow in a folder (this one); changes no file that exists",
    options: [["--typescript", "create a program in TypeScript that runs Ork as a library"]],
    examples: ["ork init", "ork init nightly && cd nightly && ork run hello.yaml", "ork init app --typescript"],
    load: async () => (await import("../workflows/init.ts")).init,
  },
  {
    usage: "validate <files...>",
    description: "check definitions and list every problem, without storing anything; exit 2 if there is a problem",
    options: [JSON_OPTION],
    examples: ["ork validate etl.yaml", "ork validate workflows/*.yaml --json"],
    load: async () => (await import("../workflows/validate.ts")).validate,
  },
  {
    usage: "import",
    description:
      "write definitions for the workflows of another tool, and report every line that was not converted; exit 1 then",
    subcommands: [
      importSpec("crontab", "a crontab: one workflow for each entry", "crontab -l | ork import crontab - --out workflows", [
        ["--timezone <zone>", "time zone of the crontab; default: that of this machine"],
        ["--system", "entries name a user, as in /etc/crontab; the default for files of /etc"],
      ]),
      importSpec("airflow", "an Airflow file, without importing it (needs python3)", "ork import airflow etl.py --plan"),
      importSpec("dagu", "a workflow of Dagu", "ork import dagu etl.yaml --plan", [
        ["--timezone <zone>", "time zone of its schedules; default: that of this machine"],
      ]),
    ],
  },
  {
    usage: "test [paths...]",
    description: "run the cases of *.ork-test.yaml in files and folders (this one) in virtual time; exit 1 if one fails",
    options: [
      ["--filter <text>", "cases with this text in their file or name"],
      ["--junit <file>", "write a report as JUnit XML"],
      ["--json", "print a report as JSON"],
    ],
    examples: ["ork test", "ork test workflows --filter retries"],
    load: async () => (await import("../workflows/test.ts")).test,
  },
  {
    usage: "simulate <file>",
    description: "run a workflow many times in virtual time with faults, and report what can go wrong; exit 1 if work is lost",
    options: [
      ["--runs <n>", "number of runs; default: 1000"],
      ["--seed <n>", "show the run of this seed; with --runs, the first seed"],
      ["--case <name>", "case of NAME.ork-test.yaml with the params, outputs and durations; default: the first that succeeds"],
      ...PARAM_OPTIONS,
      ["--ignore <kind>", "leave out findings of this kind, or KIND:TASK; may be repeated", "repeated"],
      ["--json", "print the report as JSON"],
    ],
    examples: ["ork simulate etl.yaml", "ork simulate etl.yaml --seed 17", "ork simulate etl.yaml --ignore runs_twice:load"],
    load: async () => (await import("../workflows/simulate.ts")).simulate,
  },
  {
    usage: "export <file>",
    description: "print the graphs that a TypeScript or JavaScript file exports as YAML",
    options: [["--out <folder>", "write each graph to NAME.yaml in this folder"]],
    examples: ["ork export graphs.ts", "ork export graphs.ts --out workflows"],
    load: async () => (await import("../workflows/export.ts")).exportGraphs,
  },
  {
    usage: "types <files...>",
    description: "write a TypeScript module with the params of definitions (files or folders), for yaml() in programs",
    options: [["--out <file>", "the module", { default: "ork-workflows.d.ts" }]],
    examples: ["ork types workflows"],
    load: async () => (await import("../workflows/types.ts")).types,
  },
  {
    usage: "schema",
    description: "print the JSON Schema of definitions, for editors and other tools",
    examples: ["ork schema > workflow.schema.json"],
    load: async () => (await import("../workflows/schema.ts")).schema,
  },
  {
    usage: "graph <file>",
    description: "show the tasks of a workflow and their dependencies",
    options: [["--format <format>", "text, mermaid or dot", { default: "text" }]],
    examples: ["ork graph etl.yaml", "ork graph etl.yaml --format dot | dot -Tsvg > etl.svg"],
    load: async () => (await import("../workflows/graph.ts")).graph,
  },
  {
    usage: "deploy <files...>",
    description:
      "deploy definitions (files, or folders of files) with the files that they name; deploys none if one has a problem",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    examples: ["ork deploy etl.yaml", "ork deploy workflows/*.yaml --url https://ork.example.com"],
    load: async () => (await import("../workflows/deploy.ts")).deploy,
  },
  {
    usage: "workflows",
    description: "list deployed workflows with their latest runs and next tick",
    options: [
      ["--tag <tag>", "workflows with this tag"],
      ["--search <text>", "workflows with this text in their name"],
      LIMIT_OPTION,
      JSON_OPTION,
      ...SERVER_OPTIONS,
    ],
    examples: ["ork workflows --tag sales"],
    load: async () => (await import("../workflows/workflows.ts")).workflows,
  },
  {
    usage: "delete",
    argument: new Argument("<target>", `the name of a workflow, or a run (${RUN_ARGUMENT})`),
    description: "delete a workflow and keep its runs, or delete a finished run with its logs and outputs",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    examples: ["ork delete etl", "ork delete 0190f3c2"],
    load: async () => (await import("../workflows/delete.ts")).deleteTarget,
  },
  {
    usage: "trigger <workflow>",
    description: "start a run of a deployed workflow and print its id",
    options: [
      ...PARAM_OPTIONS,
      ["--priority <n>", "1 (lowest) to 10 (highest)"],
      ["--idempotency-key <key>", "a repeated key returns the run that the first request created"],
      ["--logical-date <date>", "date that the run processes"],
      ["--wait", "follow the run until it finishes, with the output and exit codes of `ork run`"],
      ["--cancel-on-interrupt", "with --wait: Ctrl-C cancels the run instead of leaving it running"],
      ["--json", "print JSON; with --wait one object per event, then the run"],
      ...SERVER_OPTIONS,
    ],
    examples: ["ork trigger etl --param date=2026-01-31 --wait"],
    load: async () => (await import("../workflows/trigger.ts")).trigger,
  },
  {
    usage: "backfill <workflow>",
    description: "create one run for each tick of the schedule in a range; ticks that were backfilled before are skipped",
    options: [
      ["--from <date>", "first instant, or day in the schedule's time zone", "required"],
      ["--to <date>", "last instant, or day, which is included", "required"],
      ["--max-active-runs <n>", "concurrent runs of this backfill"],
      ["--plan", "list the ticks, and create nothing"],
      JSON_OPTION,
      ...SERVER_OPTIONS,
    ],
    examples: ["ork backfill etl --from 2026-01-01 --to 2026-01-31 --plan"],
    load: async () => (await import("../workflows/backfill.ts")).backfill,
  },
  {
    usage: "schedules",
    description: "list schedules with their next five ticks",
    options: [["--workflow <workflow>", "schedules of this workflow"], LIMIT_OPTION, JSON_OPTION, ...SERVER_OPTIONS],
    examples: ["ork schedules --workflow etl"],
    load: async () => (await import("../workflows/schedules.ts")).schedules,
  },
]
