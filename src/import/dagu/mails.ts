// Converts the mails of a Dagu file: `mailOn` and `mailOnError` say when to send one, `errorMail` and `infoMail` to whom. The mail server
// is a setting of the server in Ork.

import type { NotifyDefinition } from "../../core/model/definition.ts"
import type { Json } from "../../core/values/json.ts"
import type { Field } from "./fields.ts"
import { literalText } from "../imported.ts"

export interface MailFields {
  mailOn: Field | undefined
  errorMail: Field | undefined
  infoMail: Field | undefined
  smtp: Field | undefined
}

export interface DaguMails {
  /** Mails about runs. */
  notify: NotifyDefinition[]
  /** Returns the mail about a failed step with this `mailOnError`. */
  ofStep(mailOnError: Field | undefined): { notify?: NotifyDefinition }
}

interface Recipients {
  to: string[]
  prefix: string | null
}

export const convertMails = (fields: MailFields, problem: (line: number, message: string) => void): DaguMails => {
  const error = recipientsOf("errorMail", fields.errorMail, problem)
  const info = recipientsOf("infoMail", fields.infoMail, problem)
  if (fields.smtp !== undefined) problem(fields.smtp.line, "smtp is left out: set smtp and smtp_from in ork.yaml of the server")
  const mail = (on: "failure" | "success", { to, prefix }: Recipients, title: string): NotifyDefinition => ({
    on: [on],
    email: to,
    ...(prefix !== null && { subject: `${literalText(prefix)} ${title}` }),
  })
  const notify: NotifyDefinition[] = []
  const { value, line } = fields.mailOn ?? { value: null, line: 1 }
  for (const [event, wanted] of Object.entries(objectOf(value))) {
    if (wanted !== true) continue
    const recipients = event === "failure" ? error : event === "success" ? info : null
    if (event !== "failure" && event !== "success") problem(line, `mailOn.${event} has no counterpart and is left out`)
    else if (recipients === null)
      problem(line, `mailOn.${event} is left out: ${event === "failure" ? "errorMail" : "infoMail"} names no address`)
    else notify.push(mail(event, recipients, "${{ run.workflow }} ${{ run.status }}"))
  }
  const ofStep = (field: Field | undefined): ReturnType<DaguMails["ofStep"]> => {
    if (field === undefined || field.value !== true) return {}
    if (error !== null) return { notify: mail("failure", error, "${{ run.workflow }}: ${{ task.name }} ${{ task.status }}") }
    problem(field.line, "mailOnError is left out: errorMail names no address")
    return {}
  }
  return { notify, ofStep }
}

/** Returns the addresses of `errorMail` or `infoMail`; null: it has none. */
const recipientsOf = (
  name: string,
  field: Field | undefined,
  problem: (line: number, message: string) => void,
): Recipients | null => {
  if (field === undefined) return null
  const { to, prefix, ...rest } = objectOf(field.value)
  for (const other of Object.keys(rest)) {
    const advice = other === "from" ? "set smtp_from in ork.yaml of the server" : "it has no counterpart"
    problem(field.line, `${name}.${other} is left out: ${advice}`)
  }
  const addresses = [to ?? []].flat().flatMap((each) => (typeof each === "string" ? each.split(/[,\s]+/) : []))
  const given = addresses.filter((address) => address !== "")
  return given.length === 0 ? null : { to: given, prefix: typeof prefix === "string" && prefix !== "" ? prefix : null }
}

const objectOf = (value: Json): { [name: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}
