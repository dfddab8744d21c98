// What is asked of Cloud Run for an attempt: the job as it is, with arguments, variables and a time limit in place of its own. Pure.

import type { CloudrunDefinition } from "../../core/model/definition.ts"
import { toText } from "../../core/expressions/expressions.ts"
import { environmentProblem, orkVariables } from "../environment.ts"
import type { Assignment } from "../executor.ts"
import { SECRET_VARIABLE } from "../../protocol/wire/exec-files.ts"
import type { JobName, RunRequest } from "./shapes.ts"

/** Ork stops an attempt at its timeout; this is for one that no server looks after any more. */
const TIMEOUT_MARGIN_MS = 60_000
/** Cloud Run's own bound: a week. */
const MAX_TIMEOUT_S = 604_800

export interface Place {
  project: string
  region: string
}

/** The task's own options; definition/cloudrun-fields.ts has checked their shape. */
export const optionsOf = (assignment: Assignment): CloudrunDefinition =>
  (assignment.fields["cloudrun"] ?? {}) as CloudrunDefinition

/** `job` may be a whole name. `place` is what the server's settings say. */
export const jobName = (assignment: Assignment, place: Place): JobName => {
  const given = toText(assignment.fields["job"] ?? "")
  if (/^projects\/[^/]+\/locations\/[^/]+\/jobs\/[^/]+$/.test(given)) return given
  if (!/^[a-z]([a-z0-9-]*[a-z0-9])?$/.test(given)) {
    throw new Error(
      `job: ${JSON.stringify(given)} is no name of a Cloud Run job: small letters, digits and hyphens, or projects/…/locations/…/jobs/…`,
    )
  }
  const options = optionsOf(assignment)
  const [project, region] = [options.project ?? place.project, options.region ?? place.region]
  if (project === "")
    throw new Error("in which project is the job? Set cloudrun_project (ORK_CLOUDRUN_PROJECT), or cloudrun.project of the task")
  if (region === "")
    throw new Error("in which region is the job? Set cloudrun_region (ORK_CLOUDRUN_REGION), or cloudrun.region of the task")
  return `projects/${project}/locations/${region}/jobs/${given}`
}

/** What cannot be run; null: nothing. */
export const problemOf = (assignment: Assignment): string | null => {
  const { command, env } = assignment
  const options = optionsOf(assignment)
  if (options.exec === true)
    return command === null ? "with cloudrun.exec a task needs a command, which `ork exec` runs there" : null
  if (command !== null && "shell" in command) {
    return "its command is a text, but a job takes a list of arguments for its container's own program: write command: [a, b], or use cloudrun.exec"
  }
  const args = command?.argv ?? options.args ?? []
  const shown = Object.entries(env).find(([, value]) => holdsSecret(assignment, value))?.[0]
  if (shown !== undefined || args.some((value) => holdsSecret(assignment, value))) {
    const [what, name] = shown === undefined ? ["an argument", "NAME"] : [`the variable ${shown}`, shown]
    return (
      `${what} holds a secret, and everybody who may see the execution could read it: leave it out of the task and give it to the job ` +
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

/** `exec`: variables that `ork exec` needs; null: any image. */
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
        timeout: { seconds: Math.min(MAX_TIMEOUT_S, Math.ceil((node.timeoutMs + graceMs + TIMEOUT_MARGIN_MS) / 1000)) },
      }),
    },
  }
}

/** Their values come from the job itself, where Secret Manager puts them. */
const withoutSecrets = (env: { [name: string]: string }): { [name: string]: string } =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith(SECRET_VARIABLE)))
