// Builds the request that runs a job for an attempt, with the attempt's arguments, variables and time limit in place of the
// job's own. Pure.

import type { CloudrunDefinition } from "../../core/model/definition.ts"
import { toText } from "../../core/expressions/expressions.ts"
import { environmentProblem, orkVariables } from "../environment.ts"
import type { Assignment } from "../executor.ts"
import { SECRET_VARIABLE } from "../../protocol/wire/exec-files.ts"
import type { JobName, RunRequest } from "./shapes.ts"

/** Time between the end that Ork enforces and Cloud Run's own limit, which is for times without a server. */
const TIMEOUT_MARGIN_MS = 60_000
/** Limit of Cloud Run: a week. */
const MAX_TIMEOUT_S = 604_800

/** Project and region of the settings, for jobs whose tasks name none; empty when not set. */
export interface JobDefaults {
  project: string
  region: string
}

/** Returns the task's options, whose shape definition/executor-fields.ts has checked. */
export const optionsOf = (assignment: Assignment): CloudrunDefinition =>
  (assignment.fields["cloudrun"] ?? {}) as CloudrunDefinition

/** Returns whether the container runs `ork exec`, which functions need. */
export const runsExec = (assignment: Assignment): boolean =>
  optionsOf(assignment).exec === true || assignment.node.file !== undefined

/** Returns the full name of the task's job, which may be given as a full name. Throws when it is invalid or incomplete. */
export const jobName = (assignment: Assignment, defaults: JobDefaults): JobName => {
  const given = toText(assignment.fields["job"] ?? "")
  if (/^projects\/[^/]+\/locations\/[^/]+\/jobs\/[^/]+$/.test(given)) return given
  if (!/^[a-z]([a-z0-9-]*[a-z0-9])?$/.test(given)) {
    throw new Error(
      `job: ${JSON.stringify(given)} is not the name of a Cloud Run job: use lower-case letters, digits and hyphens, or projects/…/locations/…/jobs/…`,
    )
  }
  const options = optionsOf(assignment)
  const [project, region] = [options.project ?? defaults.project, options.region ?? defaults.region]
  if (project === "")
    throw new Error(
      "the job's project is not set: set cloudrun_project (ORK_CLOUDRUN_PROJECT), or cloudrun.project of the task",
    )
  if (region === "")
    throw new Error("the job's region is not set: set cloudrun_region (ORK_CLOUDRUN_REGION), or cloudrun.region of the task")
  return `projects/${project}/locations/${region}/jobs/${given}`
}

/** Returns why the attempt cannot run on Cloud Run; null when it can. */
export const problemOf = (assignment: Assignment): string | null => {
  const { command, env } = assignment
  const options = optionsOf(assignment)
  if (runsExec(assignment))
    return command === null && assignment.node.file === undefined
      ? "with cloudrun.exec a task needs a command, which `ork exec` runs there"
      : null
  if (command !== null && "shell" in command) {
    return "its command is a string, but a job takes a list of arguments for its container's own program: write command: [a, b], or use cloudrun.exec"
  }
  const args = command?.argv ?? options.args ?? []
  const shown = Object.entries(env).find(([, value]) => holdsSecret(assignment, value))?.[0]
  if (shown !== undefined || args.some((value) => holdsSecret(assignment, value))) {
    const [what, name] = shown === undefined ? ["an argument", "NAME"] : [`the variable ${shown}`, shown]
    return (
      `${what} contains a secret, and everybody who may see the execution could read it: leave it out of the task and give it to the job ` +
      `(gcloud run jobs update JOB --update-secrets=${name}=SECRET:latest), or use cloudrun.exec`
    )
  }
  return environmentProblem(
    Object.entries(env).map(([name, value]) => `${name}=${value}`),
    args,
  )
}

const holdsSecret = ({ secrets }: Assignment, value: string): boolean =>
  secrets.some((secret) => secret !== "" && value.includes(secret))

/** Builds the request of an execution. `exec`: the variables for `ork exec`; null for any other container. */
export const requestOf = (job: JobName, assignment: Assignment, exec: { [name: string]: string } | null): RunRequest => {
  const { command, graceMs, node } = assignment
  const { container, args } = optionsOf(assignment)
  const env = {
    ...(exec === null ? assignment.env : withoutSecrets(exec)),
    ...orkVariables(assignment, { inputPath: null, outputPath: null, upstreamDir: null }),
  }
  const argv = exec === null && command !== null && "argv" in command ? command.argv : args
  return {
    name: job,
    overrides: {
      taskCount: 1,
      containerOverrides: [
        {
          ...(container !== undefined && { name: container }),
          ...(argv !== undefined && (argv.length === 0 ? { clearArgs: true } : { args: argv })),
          env: Object.entries(env).map(([name, value]) => ({ name, value })),
        },
      ],
      ...(node.timeoutMs !== null && {
        timeout: `${Math.min(MAX_TIMEOUT_S, Math.ceil((node.timeoutMs + graceMs + TIMEOUT_MARGIN_MS) / 1000))}s`,
      }),
    },
  }
}

/** Removes secrets, whose values the job gets from Secret Manager. */
const withoutSecrets = (env: { [name: string]: string }): { [name: string]: string } =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith(SECRET_VARIABLE)))
