// Builds a submission: the options of sbatch, the script that runs a task's folder, and the script in that folder. Pure.

import type { SlurmDefinition } from "../../core/model/definition.ts"
import { DURATION_HINT, parseDuration } from "../../core/values/quantities.ts"
import { functionArgv } from "../../core/model/function.ts"
import { orkVariables } from "../environment.ts"
import { argvOf, type Assignment } from "../executor.ts"
import { quote } from "./cli.ts"

export const FILES = {
  run: "run.sh",
  input: "input.json",
  output: "output.json",
  stdout: "stdout",
  stderr: "stderr",
  started: "begun",
  exit: "exit",
} as const

/** Returns the task's options, whose shape definition/executor-fields.ts has checked. */
const optionsOf = (assignment: Assignment): SlurmDefinition => (assignment.fields["slurm"] ?? {}) as SlurmDefinition

/** Returns the options that request resources. Attempts with equal options may share an array. */
export const resourceOptions = (assignment: Assignment): string[] => {
  const options = optionsOf(assignment)
  const { resources } = assignment.node
  const option = (name: string, value: string | number | undefined): string[] =>
    value === undefined ? [] : [`--${name}=${value}`]
  const time = options.time === undefined ? null : parseDuration(options.time)
  if (options.time !== undefined && time === null) throw new Error(`slurm.time: ${options.time} is not ${DURATION_HINT}`)
  return [
    ...option("partition", options.partition),
    ...option("account", options.account),
    ...option("qos", options.qos),
    ...option("time", time === null ? undefined : slurmTime(time)),
    ...option("gres", options.gres),
    ...option("constraint", options.constraint),
    ...option("nodes", options.nodes),
    ...option("ntasks", options.tasks),
    ...option("cpus-per-task", resources?.cpu === undefined ? undefined : Math.ceil(resources.cpu)),
    ...option("mem", resources?.memoryBytes === undefined ? undefined : `${Math.ceil(resources.memoryBytes / 2 ** 20)}M`),
    ...(options.options ?? []),
  ]
}

/** Formats a duration as `days-hours:minutes:seconds`. */
const slurmTime = (ms: number): string => {
  const seconds = Math.max(1, Math.ceil(ms / 1000))
  const twoDigits = (value: number): string => String(value).padStart(2, "0")
  const [days, hours] = [Math.floor(seconds / 86_400), Math.floor(seconds / 3600) % 24]
  return `${days}-${twoDigits(hours)}:${twoDigits(Math.floor(seconds / 60) % 60)}:${twoDigits(seconds % 60)}`
}

export interface Submission {
  name: string
  /** Contains one folder per task, named by its number. */
  folder: string
  /** Task numbers of the array; null for a single job, whose task is number 0. */
  array: string | null
  resources: string[]
}

export const sbatchOptions = ({ name, folder, array, resources }: Submission): string[] => {
  const task = array === null ? "0" : "%a"
  return [
    "--parsable",
    `--job-name=${name}`,
    ...(array === null ? [] : [`--array=${array}`]),
    `--chdir=${folder}`,
    `--output=${folder}/${task}/${FILES.stdout}`,
    `--error=${folder}/${task}/${FILES.stderr}`,
    // A repeated submission must not truncate the output of the first one.
    "--open-mode=append",
    "--no-requeue",
    // The environment of sbatch is small (cli.ts); any other value makes Slurm read the user's login files.
    "--export=ALL",
    ...resources,
  ]
}

export const submitScript = (folder: string): string =>
  `#!/bin/sh\nexec /bin/sh ${quote(folder)}/"\${SLURM_ARRAY_TASK_ID:-0}"/${FILES.run}\n`

/**
 * Builds the script that runs the command once, however often it is submitted, and writes its exit code to a file, because the
 * queue forgets jobs. The script ignores SIGTERM, which all processes of the job receive, so that it can still record how the
 * command ended.
 */
export const runScript = (assignment: Assignment, folder: string): string => {
  const env = {
    ...assignment.env,
    ...orkVariables(assignment, {
      inputPath: `${folder}/${FILES.input}`,
      outputPath: `${folder}/${FILES.output}`,
      upstreamDir: assignment.upstreamDir,
      artifactsDir: assignment.artifactsDir,
    }),
  }
  const { command, workingDir, node } = assignment
  const argv = node.file === undefined ? argvOf(command) : functionArgv(node.file, node.function)
  const path = node.scriptDir === undefined ? [] : [`PATH=${quote(`${workingDir}/${node.scriptDir}`)}:"$PATH"; export PATH`]
  return [
    `d=${quote(folder)}`,
    `mkdir "$d/${FILES.started}" 2>/dev/null || { echo 'ork: this task was started before' >&2; exit 0; }`,
    "trap : TERM INT",
    ...Object.entries(env).map(([name, value]) => `${name}=${quote(value)}; export ${name}`),
    ...path,
    `if cd ${quote(workingDir)}; then`,
    `  ${argv.map(quote).join(" ")} < "$d/${FILES.input}"`,
    "  code=$?",
    "else",
    "  echo 'ork: this node does not have the folder that the task runs in: it must be on a file system that all nodes share' >&2",
    "  code=1",
    "fi",
    `echo "$code" > "$d/${FILES.exit}.part"`,
    `mv "$d/${FILES.exit}.part" "$d/${FILES.exit}"`,
    'exit "$code"',
    "",
  ].join("\n")
}
