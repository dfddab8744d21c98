// Sends notifications of runs and tasks: webhooks, signed like incoming ones, Slack messages and e-mails. The store records them with
// the end of the run or task, so that no crash loses one. Each is sent until the receiver confirms it, so it may arrive twice:
// X-Ork-Delivery identifies it. Gives up after about a day. The store keeps the problem of each failed delivery, and `explain` shows
// it.

import { DueLoop } from "./due-loop.ts"
import { headline, mailText, type NotificationSubject } from "./mail-text.ts"
import { isTaskOpen, readNotifiedTask } from "./notified-task.ts"
import type { Evaluator, Logger } from "../ports.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { NotifySpec } from "../../core/model/workflow.ts"
import type { Clock, Fetch, SecretSource } from "../../core/model/ports.ts"
import { isRunClosed } from "../../core/model/status.ts"
import { runShape } from "../run-json.ts"
import { SIGNATURE_HEADER, signatureOf, TIMESTAMP_HEADER } from "../../protocol/wire/signature.ts"
import type { NotificationRow, NotificationStore } from "../../store/contract/notifications.ts"
import type { Store } from "../../store/contract/store.ts"

const MAX_CONCURRENT = 16
const RESPONSE_TIMEOUT_MS = 10_000
/** Longer than a try takes: then another server sends the notifications of a server that died. */
const LEASE_MS = 60_000
const FIRST_DELAY_MS = 5000
const MAX_DELAY_MS = 3_600_000
/** Tries in about a day. */
const MAX_TRIES = 30
/** Name of the secret that notifications are signed with: ORK_SECRET_NOTIFY. */
const NOTIFY_SECRET = "NOTIFY"

export interface NotifierOptions {
  store: Pick<Store, "getRun" | "getTask" | "listRowStates" | "listInnerRowStates" | "getVersion" | "onWake"> &
    NotificationStore
  clock: Clock
  log: Logger
  secret: SecretSource
  fetch: Fetch
  evaluator: Pick<Evaluator, "render">
  /** null: no SMTP server is set. */
  mailer: Mailer | null
  /** Returns the address of the server, as people reach it. */
  address(): string
}

export interface Mailer {
  /** Rejects when the SMTP server has not accepted the mail. */
  send(mail: Mail): Promise<void>
}

export interface Mail {
  to: string[]
  subject: string
  text: string
  /** Identifies the mail; every try has the same. */
  id: string
}

interface Message {
  address: string
  body: string
  /** Notification that the message is signed for; null: without a signature. */
  signedFor: NotificationRow | null
}

export class Notifier extends DueLoop {
  readonly #options: NotifierOptions

  constructor(options: NotifierOptions) {
    super(options, "failed to read notifications; trying again")
    this.#options = options
  }

  protected override async pass(signal: AbortSignal): Promise<number | null> {
    const { store } = this.#options
    let dueMs = await store.nextNotificationMs()
    while (dueMs === 0 && !signal.aborted) {
      const claimed = await store.claimNotifications({ limit: MAX_CONCURRENT, leaseMs: LEASE_MS })
      await Promise.all(claimed.map((notification) => this.#send(notification, signal)))
      dueMs = await store.nextNotificationMs()
    }
    return dueMs
  }

  async #send(notification: NotificationRow, stopped: AbortSignal): Promise<void> {
    const { store } = this.#options
    const subject = await this.#subjectOf(notification)
    if (subject === null) return await store.removeNotifications([notification.id])
    const { workflow, run, task } = subject
    const { id, kind, node, target, tries } = notification
    const { notify = [], deadlineMs } = node === null ? workflow : workflow.nodes[node]!
    if (kind === "deadline" && tries === 1) this.#logMissed(subject, deadlineMs)
    const spec = notify[target]
    const problems = spec === undefined ? [] : await this.#deliver(spec, notification, subject, stopped)
    if (problems.length === 0) return await store.removeNotifications([id])
    await this.#postpone(notification, problems.join("; "), {
      run: run.id,
      workflow: run.workflow,
      ...(task !== null && { task: task.name }),
    })
  }

  /** Returns what the notification is about; null: it is obsolete, because the run was removed, or met the deadline. */
  async #subjectOf({ runId, kind, node, path }: NotificationRow): Promise<NotificationSubject | null> {
    const { store } = this.#options
    const run = await store.getRun(runId)
    if (run === null || (kind === "deadline" && isRunClosed(run.status))) return null
    const workflow = await store.getVersion(run.versionId)
    if (node === null) return { workflow, run, task: null }
    if (kind === "deadline" && !(await isTaskOpen(store, run, workflow, node))) return null
    return { workflow, run, task: await readNotifiedTask(store, { runId, name: workflow.nodes[node]!.name, path }) }
  }

  #logMissed({ run, task }: NotificationSubject, deadlineMs: number | undefined): void {
    const fields = { run: run.id, workflow: run.workflow, ...(task !== null && { task: task.name }), deadlineMs }
    this.#options.log.warn(fields, `a ${task === null ? "run" : "task"} is past its deadline`)
  }

  /** Sends the messages of a notification. Returns their problems. */
  async #deliver(
    spec: NotifySpec,
    notification: NotificationRow,
    subject: NotificationSubject,
    stopped: AbortSignal,
  ): Promise<string[]> {
    const { webhook, slack, email } = spec
    const problems: (string | null)[] = []
    if (webhook !== undefined) {
      const body = webhookBody(notification, subject)
      problems.push(await this.#post({ address: webhook, body, signedFor: notification }, stopped))
    }
    if (slack !== undefined) {
      const body = slackBody(notification, subject)
      problems.push(await this.#post({ address: slack, body, signedFor: null }, stopped))
    }
    if (email !== undefined) problems.push(await this.#mail(email, spec, notification, subject))
    return problems.filter((problem) => problem !== null)
  }

  async #postpone(notification: NotificationRow, problem: string, about: object): Promise<void> {
    const { store, log } = this.#options
    const { kind, tries } = notification
    const fields = { ...about, notification: kind, tries, problem }
    const givesUp = tries >= MAX_TRIES
    if (givesUp) log.error(fields, "failed to deliver a notification; giving up")
    else log.warn(fields, "failed to deliver a notification; trying again")
    const delayMs = givesUp ? null : Math.min(FIRST_DELAY_MS * 2 ** (tries - 1), MAX_DELAY_MS)
    await store.postponeNotification(notification, problem, delayMs)
  }

  /** Sends an e-mail. Returns the problem, or null. */
  async #mail(
    to: string[],
    spec: NotifySpec,
    notification: NotificationRow,
    subject: NotificationSubject,
  ): Promise<string | null> {
    const { mailer, evaluator, address } = this.#options
    if (mailer === null) return "no SMTP server is set; set smtp in ork.yaml, or ORK_SMTP"
    try {
      const link = `${address()}/ui/runs/${subject.run.id}`
      const text = await mailText(evaluator, { ...subject, spec, kind: notification.kind, link })
      await mailer.send({ to, ...text, id: deliveryId(notification) })
      return null
    } catch (error) {
      return `the e-mail to ${to.join(", ")} was not sent: ${messageOf(error)}`
    }
  }

  /** Sends a message. Returns the problem, or null. */
  async #post({ address, body, signedFor }: Message, stopped: AbortSignal): Promise<string | null> {
    const { fetch, clock } = this.#options
    if (!/^https?:\/\//.test(address)) return "the address is neither http nor https"
    const timestamp = String(Math.floor(clock.now() / 1000))
    const headers = { "content-type": "application/json", "user-agent": "ork" }
    try {
      const response = await fetch(address, {
        method: "POST",
        body,
        headers: signedFor === null ? headers : { ...headers, ...(await this.#signature(signedFor, timestamp, body)) },
        signal: AbortSignal.any([AbortSignal.timeout(RESPONSE_TIMEOUT_MS), stopped]),
      })
      await response.body?.cancel()
      return response.ok ? null : `${new URL(address).host} answered ${response.status}`
    } catch (error) {
      return `${hostOf(address)} could not be reached: ${reasonOf(error)}`
    }
  }

  async #signature(notification: NotificationRow, timestamp: string, body: string): Promise<{ [header: string]: string }> {
    const secret = await this.#options.secret(NOTIFY_SECRET)
    return {
      "x-ork-delivery": deliveryId(notification),
      [TIMESTAMP_HEADER]: timestamp,
      ...(secret !== null && { [SIGNATURE_HEADER]: signatureOf(secret, timestamp, body) }),
    }
  }
}

const deliveryId = ({ id, runId, kind }: NotificationRow): string => `${runId}:${kind}:${id}`

const webhookBody = ({ kind }: NotificationRow, { run, task }: NotificationSubject): string =>
  JSON.stringify({ event: kind, run: runShape(run), ...(task !== null && { task }) })

const slackBody = ({ kind }: NotificationRow, { run, task }: NotificationSubject): string => {
  const { error } = task ?? run
  const reason = error === null ? "" : `: ${error}`
  return JSON.stringify({ text: `${headline(run.workflow, task, kind)}${reason} (run ${run.id})` })
}

const hostOf = (address: string): string => (URL.canParse(address) ? new URL(address).host : "the address")

const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message : error.message
}
