// The text of an e-mail about a run: the templates of its author, or the default.

import type { Evaluator } from "../ports.ts"
import { toText } from "../../core/expressions/expressions.ts"
import type { NotificationKind } from "../../core/rules/runs/notifications.ts"
import { logicalDay } from "../../core/time/schedule.ts"
import type { CompiledWorkflow, NotifySpec, Template } from "../../core/model/workflow.ts"
import type { RunRow } from "../../store/contract/store.ts"

export interface MailText {
  subject: string
  text: string
}

/** The event of a run as the end of a sentence about it. */
export const RUN_STATE = {
  success: "succeeded",
  failure: "failed",
  cancel: "was cancelled",
  deadline: "is past its deadline",
} as const satisfies Record<NotificationKind, string>

/** `link`: address of the run in the web UI. Rejects when an expression of a template fails. */
export const mailText = async (
  evaluator: Pick<Evaluator, "render">,
  {
    spec,
    workflow,
    run,
    kind,
    link,
  }: { spec: NotifySpec; workflow: CompiledWorkflow; run: RunRow; kind: NotificationKind; link: string },
): Promise<MailText> => {
  const render = async (template: Template): Promise<string> => toText(await evaluator.render(template, scopeOf(run, workflow)))
  const [subject, text] = await Promise.all([
    spec.subject === undefined ? `${run.workflow}#${run.number} ${RUN_STATE[kind]}` : render(spec.subject),
    spec.body === undefined ? defaultBody(run, kind, link) : render(spec.body),
  ])
  return { subject, text }
}

const scopeOf = (run: RunRow, workflow: CompiledWorkflow) => {
  const { id, trigger, cause, status, error, params } = run
  const logical = run.logicalDate ?? run.createdAt
  const date = logicalDay(logical, null, workflow)
  return { params, tasks: {}, run: { id, workflow: run.workflow, logical_date: logical, date, trigger, cause, status, error } }
}

const defaultBody = (run: RunRow, kind: NotificationKind, link: string): string => {
  const facts = [
    ["Error", run.error],
    ["Run", run.id],
    ["Started", run.startedAt],
    ["Ended", run.finishedAt],
    ["Logical date", run.logicalDate],
    ["See", link],
  ].flatMap(([name, value]) => (value === null ? [] : [`${name}: ${value}`]))
  return `${run.workflow}#${run.number} ${RUN_STATE[kind]}.\n\n${facts.join("\n")}\n`
}
