// The text of an e-mail about a run or a task: the templates of its author, or the default.

import type { Evaluator } from "../ports.ts"
import { toText } from "../../core/expressions/expressions.ts"
import type { NotificationKind } from "../../core/rules/runs/notifications.ts"
import { logicalDay } from "../../core/time/schedule.ts"
import { taskDisplayName } from "../../core/model/task-path.ts"
import type { CompiledWorkflow, NotifySpec, Template } from "../../core/model/workflow.ts"
import type { RunRow } from "../../store/contract/store.ts"
import type { NotifiedTask } from "./notified-task.ts"

export interface MailText {
  subject: string
  text: string
}

/** The subject of a notification: a run, or a task of it. */
export interface NotificationSubject {
  workflow: CompiledWorkflow
  run: RunRow
  task: NotifiedTask | null
}

/** Describes the event as the end of a sentence about a run or a task. */
const HAPPENED = {
  success: "succeeded",
  failure: "failed",
  cancel: "was cancelled",
  deadline: "is past its deadline",
} as const satisfies Record<NotificationKind, string>

/** Returns a sentence without its period: `etl#12 failed`, `etl#12: task load[3] failed`. `name`: the run. */
export const headline = (name: string, task: NotifiedTask | null, kind: NotificationKind): string =>
  `${name}${task === null ? "" : `: task ${taskDisplayName(task.name, task.path)}`} ${HAPPENED[kind]}`

/** Writes the e-mail of a notification. `link`: address of the run in the web UI. Rejects when an expression of a template fails. */
export const mailText = async (
  evaluator: Pick<Evaluator, "render">,
  { spec, kind, link, ...subject }: NotificationSubject & { spec: NotifySpec; kind: NotificationKind; link: string },
): Promise<MailText> => {
  const { run, task } = subject
  const title = headline(`${run.workflow}#${run.number}`, task, kind)
  const render = async (template: Template): Promise<string> => toText(await evaluator.render(template, scopeOf(subject)))
  const [subjectLine, text] = await Promise.all([
    spec.subject === undefined ? title : render(spec.subject),
    spec.body === undefined ? defaultBody(title, subject, link) : render(spec.body),
  ])
  return { subject: subjectLine, text }
}

const scopeOf = ({ run, workflow, task }: NotificationSubject) => {
  const { id, trigger, cause, status, error, params } = run
  const logical = run.logicalDate ?? run.createdAt
  const date = logicalDay(logical, null, workflow)
  return {
    params,
    tasks: {},
    run: { id, workflow: run.workflow, logical_date: logical, date, trigger, cause, status, error },
    ...(task !== null && { task: { ...task } }),
  }
}

const defaultBody = (title: string, { run, task }: NotificationSubject, link: string): string => {
  const facts = [
    ["Error", task === null ? run.error : task.error],
    ["Run", run.id],
    ["Started", task === null ? run.startedAt : task.started_at],
    ["Ended", task === null ? run.finishedAt : task.finished_at],
    ["Logical date", run.logicalDate],
    ["See", link],
  ].flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`]))
  return `${title}.\n\n${facts.join("\n")}\n`
}
