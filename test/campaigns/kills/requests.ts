// Requests of users under kills: one run after the other is cancelled and retried, paused and resumed, approved or rejected. What tasks
// wrote must agree with what servers acknowledged.

import { setTimeout as delay } from "node:timers/promises"
import type { Client } from "../client.ts"
import type { Entry, Journal } from "../journal.ts"
import { KEYED } from "../workload.ts"

const STEPS = "steps"
const GATED = "gated"
const LOST_RETRIES = 1000
const POLL_MS = 100
/** A paused run whose attempt was lost does not go on: its next attempt waits too. */
const PAUSE_MS = 3000
const QUIET_MS = 300

export class Requests {
  readonly #client: Client
  readonly #journal: Journal
  readonly #violations: string[] = []
  readonly #counts: Record<string, number> = {}

  constructor(client: Client, journal: Journal) {
    this.#client = client
    this.#journal = journal
  }

  get violations(): readonly string[] {
    return this.#violations
  }

  /** Acknowledged requests by kind. */
  get counts(): Readonly<Record<string, number>> {
    return this.#counts
  }

  async deploy(): Promise<void> {
    const task = { command: this.#journal.script({ ticks: 8, tickSeconds: 0.1 }), lost_retries: LOST_RETRIES }
    await this.#client.deploy({ name: STEPS, ...KEYED, tasks: { first: task, last: { ...task, depends_on: ["first"] } } })
    const gate = { executor: "approval" }
    await this.#client.deploy({ name: GATED, ...KEYED, tasks: { gate, work: { ...task, depends_on: ["gate"] } } })
  }

  /** Goes on while `wanted` returns true. */
  async load(wanted: () => boolean): Promise<void> {
    const repeat = async (kind: string, one: (key: string, n: number) => Promise<void>): Promise<void> => {
      for (let n = 0; wanted(); n++) await one(`${kind}-${n}`, n)
    }
    await Promise.all([
      repeat("cancel", (key) => this.#cancelAndRetry(key)),
      repeat("pause", (key) => this.#pauseAndResume(key)),
      repeat("answer", (key, n) => this.#answer(key, n % 3 === 2 ? "reject" : "approve")),
    ])
  }

  /** Once a run was told as cancelled, its tasks write nothing; after its retry it succeeds. */
  async #cancelAndRetry(key: string): Promise<void> {
    const run = await this.#client.trigger(STEPS, key)
    await this.#writes(run, "first", "start")
    const accepted = await this.#send("cancel", `/runs/${run}/cancel`)
    const status = await this.#client.end(run)
    if (accepted) this.#expect(status === "cancelled", `run ${run}: its cancel was acknowledged, and it ended as ${status}`)
    if (status !== "cancelled") return
    const before = this.#of(run).length
    await delay(QUIET_MS)
    this.#expect(this.#of(run).length === before, `run ${run}: its tasks wrote after it was told as cancelled`)
    await this.#send("retry", `/runs/${run}/retry`)
    await this.#succeeds(run)
  }

  /** While a run is paused, its next task does not start. */
  async #pauseAndResume(key: string): Promise<void> {
    const run = await this.#client.trigger(STEPS, key)
    await this.#writes(run, "first", "start")
    const accepted = await this.#send("pause", `/runs/${run}/pause`)
    const isBeforeEnd = !this.#has(run, "first", "end")
    await this.#writes(run, "first", "end", PAUSE_MS)
    await delay(QUIET_MS)
    if (accepted && isBeforeEnd)
      this.#expect(!this.#has(run, "last", "start"), `run ${run}: a task started while it was paused`)
    await this.#send("resume", `/runs/${run}/resume`)
    await this.#succeeds(run)
  }

  /** What follows an approval starts once it is given, and never after a rejection. */
  async #answer(key: string, verb: "approve" | "reject"): Promise<void> {
    const run = await this.#client.trigger(GATED, key)
    await delay(QUIET_MS)
    this.#expect(this.#of(run).length === 0, `run ${run}: a task started before its approval`)
    // A gate that does not wait yet rejects the answer, as does one that got it although its reply was lost.
    while (!(await this.#send(verb, `/runs/${run}/tasks/gate/${verb}`))) {
      const { body } = await this.#client.ask("GET", `/runs/${run}/tasks/gate`)
      if (body["status"] === "success" || body["status"] === "failed") break
      await delay(POLL_MS)
    }
    if (verb === "approve") return await this.#succeeds(run)
    const status = await this.#client.end(run)
    this.#expect(status === "failed", `run ${run} was rejected, and ended as ${status}`)
    this.#expect(this.#of(run).length === 0, `run ${run}: a task started after its rejection`)
  }

  /** Returns whether a server acknowledged the request. */
  async #send(kind: string, path: string): Promise<boolean> {
    const { status } = await this.#client.ask("POST", path)
    if (status >= 300) return false
    this.#counts[kind] = (this.#counts[kind] ?? 0) + 1
    return true
  }

  async #succeeds(run: string): Promise<void> {
    const status = await this.#client.end(run)
    this.#expect(status === "success", `run ${run}: after the requests of its user it ended as ${status}`)
    for (const { name, status: of } of await this.#client.settledTasks(run)) {
      const isGate = name === "gate"
      this.#expect(of === "success" && (isGate || this.#has(run, name, "end")), `run ${run}: its task ${name} never ended`)
    }
  }

  #expect(holds: boolean, violation: string): void {
    if (!holds) this.#violations.push(violation)
  }

  #of(run: string): Entry[] {
    return this.#journal.read().filter((entry) => entry.run === run)
  }

  #has(run: string, task: string, phase: Entry["phase"]): boolean {
    return this.#of(run).some((entry) => entry.task === task && entry.phase === phase)
  }

  /** Resolves when a task has written a line, or after `ms`. */
  async #writes(run: string, task: string, phase: Entry["phase"], ms = Infinity): Promise<void> {
    const until = performance.now() + ms
    while (!this.#has(run, task, phase) && performance.now() < until) await delay(POLL_MS)
  }
}
