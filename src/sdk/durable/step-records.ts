// Records of the steps of one activation: finds the record of each step that the code reaches, and commits new ones. Some records wait for
// the next commit, so that a value or a patch costs none of its own.

import { AsyncLocalStorage } from "node:async_hooks"
import type { Json } from "../../core/values/json.ts"
import { type Clock, iso } from "../../core/model/ports.ts"
import type { Output } from "../../core/model/change.ts"
import type { NewStep, Step, StepKind } from "../../store/contract/functions.ts"
import { checkText } from "../checks.ts"
import { NonDeterminismError } from "../errors.ts"

/** Indexes of databases hold names of this length, whatever their characters. */
const MAX_NAME = 500

type StepRecord = Omit<NewStep, "row" | "attemptId">

interface RecordPorts {
  clock: Clock
  /** Resolves when the steps are committed. */
  record(steps: StepRecord[]): Promise<void>
  writeOutput(step: { name: string; occurrence: number }, value: Json): Promise<Output>
}

/** The step whose code runs, also after an `await` in it. */
const stepCode = new AsyncLocalStorage<{ readonly records: object; readonly step: string }>()

export class StepRecords {
  readonly #ports: RecordPorts
  readonly #recorded: Map<string, Step>
  /** The first step of each name: all of them are of its kind. */
  readonly #firsts = new Map<string, Step>()
  /** Identity of these records for the code of their steps, which refers to nothing else: the code may go on for long. */
  readonly #identity = {}
  /** Number of steps of each name so far. */
  readonly #occurrences = new Map<string, number>()
  /** Position of the next new step. */
  #position: number
  /** Number of recorded steps that the function has not reached. */
  #unreached: number
  /** Records that the next commit takes along. */
  #pending: StepRecord[] = []

  constructor(steps: readonly Step[], ports: RecordPorts) {
    this.#ports = ports
    this.#recorded = new Map(steps.map((step) => [keyOf(step), step]))
    for (const step of steps) if (!this.#firsts.has(step.name)) this.#firsts.set(step.name, step)
    this.#position = steps.reduce((last, { position }) => Math.max(last, position + 1), 0)
    this.#unreached = steps.length
  }

  /** Returns the record of the next step of this name; a new one when there is none. */
  next(kind: StepKind, name: string): Step {
    checkText(name, "the name of a step", MAX_NAME)
    const caller = stepCode.getStore()
    if (caller?.records === this.#identity) throw nestedStep(caller.step, kind, name)
    const first = this.#firsts.get(name)
    if (first !== undefined && first.kind !== kind) throw nonDeterminism(first, kind)
    const occurrence = this.#occurrences.get(name) ?? 0
    this.#occurrences.set(name, occurrence + 1)
    const recorded = this.#recorded.get(keyOf({ name, occurrence }))
    if (recorded === undefined) {
      const startedAt = iso(this.#ports.clock.now())
      const step: Step = {
        name,
        occurrence,
        position: this.#position++,
        kind,
        state: "waiting",
        failures: 0,
        output: null,
        error: null,
        details: null,
        startedAt,
        finishedAt: null,
      }
      if (first === undefined) this.#firsts.set(name, step)
      return step
    }
    this.#unreached--
    return recorded
  }

  /** Calls the code of a step, which begins no step: it is not called when the function runs again. */
  callCode<Result>({ name }: Step, code: () => Result): Result {
    return stepCode.run({ records: this.#identity, step: name }, code)
  }

  /** Returns whether the step was recorded before this activation. */
  isRecorded(step: Step): boolean {
    return this.#recorded.get(keyOf(step)) === step
  }

  /** Returns whether the function has not reached all steps that it reached before. */
  get hasUnreached(): boolean {
    return this.#unreached > 0
  }

  async succeed<Value extends Json>(step: Step, value: Value): Promise<{ value: Value }> {
    await this.record(this.#finished(step, await this.#ports.writeOutput(step, value)))
    return { value }
  }

  /** Records a success with the next commit: nothing that depends on it is committed before. */
  succeedLater(step: Step, value: Json): void {
    this.#pending.push(this.#finished(step, { inline: value }))
  }

  /** Records a step, together with the steps that wait for a commit. */
  async record(step: Step): Promise<void> {
    const steps = [...this.#pending, step]
    this.#pending = []
    await this.#ports.record(steps)
  }

  /** Records the steps that wait for a commit. */
  async flush(): Promise<void> {
    const steps = this.#pending
    this.#pending = []
    if (steps.length > 0) await this.#ports.record(steps)
  }

  #finished(step: Step, output: Output): Step {
    return { ...step, state: "success", output, finishedAt: iso(this.#ports.clock.now()) }
  }
}

const keyOf = ({ name, occurrence }: Pick<Step, "name" | "occurrence">): string => `${occurrence}/${name}`

const KIND_TEXT = {
  run: "step.run",
  sleep: "step.sleep",
  wait: "step.waitFor",
  call: "step.call",
  tx: "step.tx",
  approval: "step.approval",
  value: "step.now or step.random",
  patch: "step.patch",
} as const satisfies Record<StepKind, string>

const nestedStep = (caller: string, kind: StepKind, name: string): NonDeterminismError =>
  new NonDeterminismError(
    `${KIND_TEXT[kind]} ("${name}") begins in the code of the step "${caller}", which does not run again when the function is resumed: ` +
      "begin it in the function, and pass its result on",
  )

const nonDeterminism = ({ name, occurrence, kind, startedAt }: Step, wanted: StepKind): NonDeterminismError => {
  const what = occurrence === 0 ? `"${name}"` : `"${name}" (number ${occurrence + 1})`
  return new NonDeterminismError(
    `the step ${what} is ${KIND_TEXT[wanted]} in this code, but was recorded as ${KIND_TEXT[kind]} at ${startedAt}: ` +
      "give the changed step another name, or choose the old or new code with step.patch",
  )
}
