// Compiles `notify` of the workflow or of a task: who gets messages about it.

import type { NotifyDefinition } from "../../model/definition.ts"
import { omitUndefined } from "../../values/omit-undefined.ts"
import type { Path } from "../../model/problems.ts"
import type { NotifySpec } from "../../model/workflow.ts"
import type { CompileContext } from "./context.ts"
import { quote } from "./names.ts"

/** Something before and after an at sign, without spaces and angle brackets; the mail server decides the rest. */
const EMAIL = /^[^\s<>@,;"]+@[^\s<>@,;"]+$/

/** Compiles a `notify` list. `path`: where it is. */
export const compileNotify = (
  context: CompileContext,
  notify: NotifyDefinition | NotifyDefinition[],
  path: Path,
  about: "run" | "task",
): NotifySpec[] => [notify].flat().map((one, i) => compileOne(context, one, Array.isArray(notify) ? [...path, i] : path, about))

const compileOne = (context: CompileContext, written: NotifyDefinition, path: Path, about: "run" | "task"): NotifySpec => {
  const { on, webhook, slack, email, subject, body } = written
  const { problems } = context
  if (webhook === undefined && slack === undefined && email === undefined)
    problems.add(path, "has no target; add webhook, slack or email")
  for (const [field, url] of Object.entries({ webhook, slack })) {
    if (url !== undefined && !/^https?:\/\//.test(url)) problems.add([...path, field], "must start with http:// or https://")
  }
  const addresses = email === undefined ? undefined : [email].flat()
  for (const address of addresses ?? []) {
    if (address.includes("${{"))
      problems.add([...path, "email"], "must not contain expressions: data never decides who gets mails")
    else if (!EMAIL.test(address)) problems.add([...path, "email"], `${quote(address)} is not an e-mail address`)
  }
  for (const [field, template] of Object.entries({ subject, body })) {
    if (template !== undefined && email === undefined) problems.add([...path, field], "is for notifications with email")
  }
  const site = { node: null, notify: about } as const
  return omitUndefined({
    on,
    webhook,
    slack,
    email: addresses,
    subject: subject === undefined ? undefined : context.template(subject, [...path, "subject"], site),
    body: body === undefined ? undefined : context.template(body, [...path, "body"], site),
  })
}
