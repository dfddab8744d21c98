// People: they start runs, cancel, pause, resume and retry them, ask again when the answer did not come, and wait for the end.

import { newRunId, type RunId } from "../../../src/core/model/ids.ts"
import type { TriggerRequest } from "../../../src/engine/engine.ts"
import { Conflict } from "../../../src/store/contract/errors.ts"
import type { Life } from "./engine-process.ts"
import { Rng } from "../rng.ts"
import { retryRequest, type RunSpec, type UserAction } from "../scenario/scenario.ts"
import type { StoredVersion } from "../../../src/store/contract/store.ts"
import { Violation } from "../trace.ts"
import type { World } from "../simulation.ts"

const AGAIN_MS = 500
const RETRY_LATER_MS = 5000
const MAX_TRIES = 4

export class Users {
  readonly #world: World
  readonly #versions: StoredVersion[]
  readonly #rng: Rng
  /** Runs whose start was acknowledged. */
  readonly acknowledged = new Map<string, RunSpec>()
  /** Requests that are not over. */
  #open = 0

  constructor(world: World, versions: StoredVersion[]) {
    this.#world = world
    this.#versions = versions
    this.#rng = new Rng("users", world.scenario.seed)
    const { runs, actions, engines } = world.scenario
    runs.forEach((spec) => this.#later(spec.at, () => this.#trigger(spec)))
    actions.forEach((action) => this.#later(action.at, () => this.#act(action, 1)))
    engines.forEach((engine, i) => engine.restarts.forEach((at) => this.#later(at, () => this.#restart(i))))
    world.asks = (row, attemptId, kind) => this.#later(this.#rng.int(0, 8000), () => this.#answer(row, attemptId, kind))
    for (const [i, spec] of runs.entries()) if (spec.private !== null) world.name(this.#newId(), `r${i}`)
  }

  get idle(): boolean {
    return this.#open === 0
  }

  #newId(): RunId {
    return newRunId(this.#world.clock.now(), this.#rng.hex128())
  }

  #later(ms: number, request: () => void): void {
    this.#open += 1
    this.#world.clock.after(ms, () => {
      this.#open -= 1
      request()
    })
  }

  /** An engine that takes requests about this run. */
  #desk(spec: RunSpec): Life | null {
    const { lives, scenario } = this.#world
    const open = lives.filter(({ alive, started, draining, engine }) => {
      const own = spec.private === null ? scenario.engines[engine]!.privateRun === null : engine === spec.private
      return alive && started && !draining && own
    })
    return open.length === 0 ? null : this.#rng.pick(open)
  }

  /** Asks an engine; `failed` is called when it did not answer, or with an error. */
  #ask<T>(
    spec: RunSpec,
    ask: (life: Life) => Promise<T>,
    then: (answer: T, life: Life) => void,
    failed: (error: Error | null) => void,
  ): void {
    const life = this.#desk(spec)
    if (life === null) return this.#later(AGAIN_MS, () => this.#ask(spec, ask, then, failed))
    this.#open += 1
    const close = (next: () => void) => (): void => {
      if (!life.requests.delete(abandoned)) return
      this.#open -= 1
      next()
    }
    const abandoned = close(() => failed(null))
    life.requests.add(abandoned)
    ask(life).then(
      (answer) => close(() => then(answer, life))(),
      (error: Error) => close(() => failed(error))(),
    )
  }

  // -- runs ------------------------------------------------------------------------------------------------------------------------

  #trigger(spec: RunSpec): void {
    const { workflowId, versionId } = this.#versions[spec.workflow]!
    const id = spec.private === null ? this.#newId() : (this.#idOf(spec) as RunId)
    this.#world.name(id, spec.label)
    const { params, priority, key: idempotencyKey } = spec
    const own = { id, workflowId, versionId, params, priority, idempotencyKey }
    const request: TriggerRequest = { ...own, trigger: "manual", logicalDate: null, workingDir: "work" }
    const again = (): void => {
      if (spec.key !== null) this.#later(AGAIN_MS, () => this.#trigger(spec))
    }
    this.#ask(
      spec,
      (life) => life.subject.trigger(request),
      (run, life) => {
        this.#world.tell(life, `acknowledges ${spec.label}`)
        this.#world.name(run.id, spec.label)
        this.acknowledged.set(run.id, spec)
        this.#await(life, run.id)
      },
      again,
    )
  }

  #idOf(spec: RunSpec): string | null {
    for (const [id, known] of this.acknowledged) if (known === spec) return id
    return spec.private === null ? null : this.#world.runIdOf(this.#world.scenario.runs.indexOf(spec))
  }

  /** Waits for the end as `ork run` does. */
  #await(life: Life, runId: string): void {
    life.awaited.set(runId, false)
    const retries = this.#world.retries(runId)
    life.subject.waitForRun(runId as RunId).then(
      () => {
        life.awaited.set(runId, true)
        const run = this.#world.tables.run(runId)!
        if ((run.finished_at === null || run.hooks_pending > 0) && this.#world.retries(runId) === retries) {
          this.#world.fail(new Violation("the end is told at the end", `${this.#world.labelOf(runId)} is ${run.status}`))
        }
      },
      () => this.#later(AGAIN_MS, () => (life.alive ? this.#await(life, runId) : undefined)),
    )
  }

  // -- what they ask of runs -------------------------------------------------------------------------------------------------------

  #act(action: UserAction, tries: number): void {
    const spec = this.#world.scenario.runs[action.run]!
    const runId = this.#idOf(spec) as RunId | null
    const later = (ms: number): void => {
      if (tries < MAX_TRIES) this.#later(ms, () => this.#act(action, tries + 1))
    }
    if (runId === null || this.#world.tables.run(runId) === undefined) return later(AGAIN_MS)
    const told = (life: Life): void => this.#world.tell(life, `${action.kind} of ${spec.label} is acknowledged`)
    switch (action.kind) {
      case "cancel":
        return this.#ask(
          spec,
          (life) => life.subject.cancel(runId),
          (_, life) => told(life),
          (error) => (error instanceof Conflict ? undefined : later(AGAIN_MS)),
        )
      case "pause": {
        const resume = (): void => this.#later(action.forMs, () => this.#resume(spec, runId))
        return this.#ask(
          spec,
          (life) => life.subject.pause(runId, true),
          (_, life) => {
            told(life)
            resume()
          },
          resume,
        )
      }
      case "retry": {
        const run = this.#world.tables.run(runId)!
        const workflow = this.#world.scenario.workflows[spec.workflow]!
        const instances = (task: string): string[] => {
          const node = workflow.nodes.findIndex((sim) => sim.node.name === task)
          const rows = this.#world.tables.tasksOf(run.seq)
          return rows.filter((row) => row.node === node && row.parent_id !== null).map((row) => row.path)
        }
        const request = retryRequest(action, workflow, instances)
        this.#world.asked(runId, request)
        return this.#ask(
          spec,
          (life) => life.subject.retry(runId, request),
          (_, life) => {
            told(life)
            this.#await(life, runId)
          },
          () => later(RETRY_LATER_MS),
        )
      }
      default:
        return action satisfies never
    }
  }

  /** Nobody forgets a paused run. */
  #resume(spec: RunSpec, runId: RunId): void {
    this.#ask(
      spec,
      (life) => life.subject.pause(runId, false),
      () => undefined,
      (error) => {
        if (!(error instanceof Conflict)) this.#later(AGAIN_MS, () => this.#resume(spec, runId))
      },
    )
  }

  // -- what tasks ask of them ------------------------------------------------------------------------------------------------------

  /** Until it waits no more. */
  #answer(row: number, attemptId: string, kind: "approval" | "callback"): void {
    const { tables, answers, tokens } = this.#world
    const task = tables.taskByRow(row)
    if (task === undefined || task.attempt_id !== attemptId || task.waiting_on === null) return
    const run = tables.runBySeq(task.run_seq)
    const { node } = this.#world.simOf(run.workflow, task.node)
    const answer = { good: this.#rng.chance(0.7), output: { said: this.#rng.int(0, 9) } }
    answers.set(attemptId, [...(answers.get(attemptId) ?? []), answer])
    const place = { runId: run.id as RunId, name: node.name, path: task.path }
    const again = (): void => this.#later(AGAIN_MS, () => this.#answer(row, attemptId, kind))
    this.#ask(
      this.#specOf(run.id),
      ({ subject }) =>
        kind === "approval"
          ? subject.externalSignals.approval({ ...place, approved: answer.good, comment: null, by: "somebody" })
          : subject.externalSignals.callback(tokens.get(attemptId)!, {
              status: answer.good ? "success" : "failed",
              output: answer.output,
            }),
      (_, life) => this.#world.tell(life, `is told ${answer.good ? "yes" : "no"} for row ${row}`),
      again,
    )
  }

  /** Of a sub-workflow, that of the run that somebody started. */
  #specOf(runId: string): RunSpec {
    const spec = this.#world.scenario.runs.find(({ label }) => label === this.#world.labelOf(runId))
    return spec ?? this.#specOf(this.#world.tables.parentOf(runId))
  }

  /** An operator restarts an engine in good order. */
  #restart(engine: number): void {
    const life = this.#world.lives.findLast((one) => one.engine === engine)
    if (life === undefined || !life.alive || !life.started || life.draining) return
    life.draining = true
    this.#world.tell(life, "is asked to stop")
    const over = (): void => {
      if (!life.alive) return
      this.#world.tell(life, "has stopped")
      this.#world.end(life)
      this.#world.clock.after(100, () => this.#world.begin(engine))
    }
    life.subject.stop().then(over, over)
  }
}
