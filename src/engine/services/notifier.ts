// Sends the notices that runs owe: a webhook, signed as incoming ones are, or Slack's shape. The store recorded them with the end of
// the run, so none is lost by a crash; each is sent until an answer says that it arrived, so one may come twice: X-Ork-Delivery tells
// a receiver. After the last try it is given up on, and the log says so. Sleeps until one is due.

import type { Logger } from "../ports.ts"
import type { NewNotification } from "../../core/rules/notifications.ts"
import type { Clock, Fetch, SecretSource } from "../../core/model/ports.ts"
import { runEnded } from "../../core/model/status.ts"
import { runShape } from "../../protocol/api/shapes.ts"
import { SIGNATURE_HEADER, signatureOf, TIMESTAMP_HEADER } from "../../protocol/wire/signature.ts"
import type { NotificationRow, NotificationStore } from "../../store/contract/notifications.ts"
import type { RunRow, Store } from "../../store/contract/store.ts"

const AT_ONCE = 16
const ANSWER_MS = 10_000
/** Longer than a try can take: a notice of a server that died in it is taken up by another after that. */
const LEASE_MS = 60_000
const FIRST_DELAY_MS = 5000
const MAX_DELAY_MS = 3_600_000
/** About a day of trying. */
const MOST_TRIES = 30
const RETRY_MS = 1000
const MIN_SLEEP_MS = 5
/** Others commit hundreds of times a second, and send their own notices unless they die. */
const OTHERS_MS = 1000
/** The name of the secret that outgoing notices are signed with: ORK_SECRET_NOTIFY. */
const NOTIFY_SECRET = "NOTIFY"

export interface NotifierOptions {
  store: Pick<Store, "getRun" | "compiled" | "onWake"> & NotificationStore
  clock: Clock
  log: Logger
  secret: SecretSource
  fetch: Fetch
}

export class Notifier {
  readonly #options: NotifierOptions
  readonly #stopped = new AbortController()
  #cancelTimer: (() => void) | null = null
  #cancelOthers: (() => void) | null = null
  #working: Promise<void> | null = null
  #again = false

  constructor(options: NotifierOptions) {
    this.#options = options
  }

  start(): void {
    this.#options.store.onWake(() => this.#lookSoon())
    this.wake()
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#cancelTimer?.()
    this.#cancelOthers?.()
    await this.#working
  }

  #lookSoon(): void {
    if (this.#stopped.signal.aborted) return
    this.#cancelOthers ??= this.#options.clock.after(OTHERS_MS, () => {
      this.#cancelOthers = null
      this.wake()
    })
  }

  /** A run has started or ended. */
  wake(): void {
    if (this.#stopped.signal.aborted) return
    this.#again = true
    this.#working ??= this.#work().finally(() => (this.#working = null))
  }

  async #work(): Promise<void> {
    const { store, clock, log } = this.#options
    let sleep: number | null = RETRY_MS
    try {
      do {
        this.#again = false
        sleep = await store.nextNotificationMs()
        while (sleep === 0 && !this.#stopped.signal.aborted) {
          await Promise.all(
            (await store.claimNotifications({ limit: AT_ONCE, leaseMs: LEASE_MS })).map((notice) => this.#send(notice)),
          )
          sleep = await store.nextNotificationMs()
        }
      } while (this.#again && !this.#stopped.signal.aborted)
    } catch (error) {
      log.warn({ error: String(error) }, "could not look for notices; trying again")
    }
    this.#cancelTimer?.()
    this.#cancelTimer =
      sleep === null || this.#stopped.signal.aborted ? null : clock.after(Math.max(sleep, MIN_SLEEP_MS), () => this.wake())
  }

  async #send(notice: NotificationRow): Promise<void> {
    const { store, log } = this.#options
    const { id, runId, kind, target, tries } = notice
    const run = await store.getRun(runId)
    // Removed meanwhile, or done before its deadline.
    if (run === null || (kind === "deadline" && runEnded(run.status))) return await store.removeNotifications([id])
    const workflow = await store.compiled(run.versionId)
    if (kind === "deadline" && tries === 1) {
      log.warn({ run: runId, workflow: run.workflow, deadlineMs: workflow.deadlineMs }, "a run is past its deadline")
    }
    const spec = workflow.notify[target]
    if (spec === undefined) return await store.removeNotifications([id])
    const problems = [
      ...(spec.webhook === undefined ? [] : [await this.#post(spec.webhook, webhookBody(notice, run), notice)]),
      ...(spec.slack === undefined ? [] : [await this.#post(spec.slack, slackBody(notice, run), null)]),
    ].filter((problem) => problem !== null)
    if (problems.length === 0) return await store.removeNotifications([id])
    const fields = { run: runId, workflow: run.workflow, notice: kind, tries, problem: problems.join("; ") }
    if (tries >= MOST_TRIES) {
      log.error(fields, "a notice could not be delivered; given up on")
      return await store.removeNotifications([id])
    }
    log.warn(fields, "a notice could not be delivered; trying again")
    await store.postponeNotification(id, Math.min(FIRST_DELAY_MS * 2 ** (tries - 1), MAX_DELAY_MS))
  }

  /** What went wrong, or null. `signed`: the notice whose headers go with it. */
  async #post(address: string, body: string, signed: NotificationRow | null): Promise<string | null> {
    const { fetch, clock } = this.#options
    if (!/^https?:\/\//.test(address)) return "the address is neither http nor https"
    const timestamp = String(Math.floor(clock.now() / 1000))
    const headers = { "content-type": "application/json", "user-agent": "ork" }
    try {
      const answer = await fetch(address, {
        method: "POST",
        body,
        headers: signed === null ? headers : { ...headers, ...(await this.#signature(signed, timestamp, body)) },
        signal: AbortSignal.any([AbortSignal.timeout(ANSWER_MS), this.#stopped.signal]),
      })
      await answer.body?.cancel()
      return answer.ok ? null : `${new URL(address).host} answered ${answer.status}`
    } catch (error) {
      return `${hostOf(address)} could not be reached: ${reasonOf(error)}`
    }
  }

  async #signature(notice: NotificationRow, timestamp: string, body: string): Promise<{ [header: string]: string }> {
    const secret = await this.#options.secret(NOTIFY_SECRET)
    return {
      "x-ork-delivery": `${notice.runId}:${notice.kind}:${notice.id}`,
      [TIMESTAMP_HEADER]: timestamp,
      ...(secret !== null && { [SIGNATURE_HEADER]: signatureOf(secret, timestamp, body) }),
    }
  }
}

const webhookBody = ({ kind }: NewNotification, run: RunRow): string => JSON.stringify({ event: kind, run: runShape(run) })

const SAID = {
  success: "succeeded",
  failure: "failed",
  cancel: "was cancelled",
  deadline: "is past its deadline",
} as const satisfies Record<NewNotification["kind"], string>

const slackBody = ({ kind }: NewNotification, run: RunRow): string =>
  JSON.stringify({ text: `${run.workflow} ${SAID[kind]}${run.error === null ? "" : `: ${run.error}`} (run ${run.id})` })

const hostOf = (address: string): string => (URL.canParse(address) ? new URL(address).host : "the address")

const reasonOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message : error.message
}
