// The test kit: the real engine on a database in memory, under a virtual clock that only the test advances.

import { rm } from "node:fs/promises"
import type { Clock, Random } from "../core/model/ports.ts"
import { inlineEvaluator } from "../engine/gate/evaluator.ts"
import type { Logger } from "../engine/ports.ts"
import { FileObjectStore } from "../objects/file/file.ts"
import type { ObjectStore } from "../objects/objects.ts"
import type { ServerStore } from "../store/contract/server-store.ts"
import { openSqlite } from "../store/sqlite/sqlite.ts"
import type { RunId } from "../core/model/ids.ts"
import type { CompiledWorkflow } from "../core/model/workflow.ts"
import { checkDefinitions, checkRun } from "./check-definitions.ts"
import type { Definition, SignalDefinition, TaskDefinition } from "./definitions.ts"
import { type Duration, toMs } from "./duration.ts"
import type { EventOptions, OrkEvent } from "./events.ts"
import type { OrkParts } from "./embedded/ork-parts.ts"
import { withCalledDefinitions } from "./graph/graph.ts"
import { checkNames, TEST } from "./option-names.ts"
import { Ork } from "./ork.ts"
import {
  idOf,
  type AnswerOptions,
  type Enqueueable,
  type EnqueueOptions,
  type ListOptions,
  type Orkable,
  type ScheduleOptions,
  type TransactionOptions,
  type Work,
  type WorkRef,
} from "./orkable.ts"
import { HOLDING_CONDITIONS } from "./test-kit/holding-conditions.ts"
import { type FindMock, type MockContext, mockedExecutors, type MockFunction } from "./test-kit/mocked-executor.ts"
import { seededRandom } from "./test-kit/seeded-random.ts"
import { awaitOperations } from "./test-kit/await-operations.ts"
import { KillSwitch } from "./test-kit/kill-switch.ts"
import { createFolder } from "./test-kit/memory-folder.ts"
import { noJobYet } from "./errors.ts"
import { MockableNames } from "./test-kit/mockable-names.ts"
import { readTaskStates, type TaskState } from "./test-kit/task-states.ts"
import { VirtualClock } from "./virtual-clock.ts"

export type { MockContext } from "./test-kit/mocked-executor.ts"
export type { TaskState } from "./test-kit/task-states.ts"

export interface TestOptions {
  run: readonly Definition[]
  /** Time at the beginning. Default: 2026-01-01T00:00:00Z. */
  now?: string | Date
  /** Seed of random numbers, such as jitter. Default: 1. */
  seed?: number
  /** Default: nothing is logged. */
  log?: Logger
}

export interface Mock<Input> {
  /** The inputs with which the mock was called. */
  readonly calls: readonly Input[]
}

export interface TestOrk extends Orkable, AsyncDisposable {
  enqueue: Ork["enqueue"]
  /** Returns the time now. */
  now(): Date
  /** Lets time pass: everything that is due in between happens in its order. */
  advance(duration: Duration): Promise<void>
  /** Kills the engine without warning. A new engine takes over the same database. */
  crash(): Promise<void>
  /**
   * Replaces what runs: by definition or its name, or by the name of a task in a graph or file (`load`, inside a group `region.load`).
   */
  mock<Input, Output>(
    definition: Enqueueable<Input, Output> | string,
    handler: (input: Input, context: MockContext) => Output | Promise<Output>,
  ): Mock<Input>
  /** Returns the tasks of a run, and its fan-outs and groups. */
  tasks(run: WorkRef): Promise<TaskState[]>
  stop(): Promise<void>
}

/** Opens an engine for a test. */
export const testOrk = async (options: TestOptions): Promise<TestOrk> => {
  checkNames(options, TEST, "testOrk")
  return await openKit(options)
}

/** Options for test runners beside the public ones. */
export interface KitOptions extends TestOptions {
  /** Default: that of the seed. */
  random?: Random
  /** Mock of tasks that `mock` does not replace. */
  otherwise?: FindMock
  /** Changes a graph before it is stored. */
  prepare?: (workflow: CompiledWorkflow) => CompiledWorkflow
  /** Opens the database. Default: SQLite in memory. */
  openStore?: (clock: Clock, random: Random) => Promise<ServerStore>
  /** Returns the store that the engines get. */
  store?: (store: ServerStore) => ServerStore
}

export const openKit = async (options: KitOptions): Promise<TestOrk> => {
  checkRun(options.run)
  checkDefinitions(withCalledDefinitions(options.run))
  const kit = new TestKit(options)
  await kit.open()
  return kit
}

const SILENT: Logger = { info: () => {}, warn: () => {}, error: () => {} }

interface RunningEngine {
  ork: Ork
  kill: () => void
  killed: Promise<"killed">
  process: string
}

class TestKit implements TestOrk {
  readonly #options: KitOptions
  readonly #clock: VirtualClock
  readonly #random: Random
  readonly #folder = createFolder()
  readonly #objects: ObjectStore
  readonly #mocks = new Map<string, MockFunction>()
  #mockable: MockableNames | null = null
  #store: ServerStore | null = null
  /** The engine that runs now, with the switch that kills it. */
  #engine: RunningEngine | null = null
  #engines = 0
  readonly #dead = new Set<string>()

  constructor(options: KitOptions) {
    this.#options = options
    this.#clock = new VirtualClock(new Date(options.now ?? "2026-01-01T00:00:00Z").getTime())
    this.#random = options.random ?? seededRandom(options.seed ?? 1)
    this.#objects = awaitOperations(new FileObjectStore(this.#folder), this.#clock)
  }

  async open(): Promise<void> {
    this.#store = await this.#openStore()
    await this.#store.migrate()
    await this.#startEngine()
    this.#mockable = await MockableNames.of(withCalledDefinitions(this.#options.run), this.#store)
  }

  async #openStore(): Promise<ServerStore> {
    const { openStore } = this.#options
    if (openStore !== undefined) return awaitOperations(await openStore(this.#clock, this.#random), this.#clock)
    return await openSqlite({
      path: ":memory:",
      clock: this.#clock,
      random: this.#random,
      isDead: ({ process }) => this.#dead.has(process),
    })
  }

  async #startEngine(): Promise<void> {
    const killSwitch = new KillSwitch()
    const process = `engine ${++this.#engines}`
    const clock = killSwitch.clock(this.#clock)
    const parts: OrkParts = {
      store: killSwitch.bind(this.#options.store?.(this.#store!) ?? this.#store!),
      objects: this.#objects,
      evaluator: inlineEvaluator,
      clock,
      random: this.#random,
      log: this.#options.log ?? SILENT,
      process,
      // No other process can die: dead engines are reaped when the next one starts.
      holder: "run",
      singleProcess: true,
      name: process,
      concurrency: 100,
      version: "test",
      executors: (functions) =>
        mockedExecutors(functions, { find: (names) => this.#findMock(names), objects: this.#objects, clock }),
      conditions: HOLDING_CONDITIONS,
      ...(this.#options.prepare !== undefined && { prepare: this.#options.prepare }),
    }
    const ork = await Ork.start(parts, this.#options.run)
    this.#engine = { ork, kill: () => killSwitch.end(), killed: killSwitch.killed, process }
  }

  #findMock(names: readonly string[]): MockFunction | undefined {
    const name = names.find((each) => this.#mocks.has(each))
    return name === undefined ? this.#options.otherwise?.(names) : this.#mocks.get(name)
  }

  get #running(): RunningEngine {
    if (this.#engine === null) throw new Error("this testOrk was stopped")
    return this.#engine
  }

  get #ork(): Ork {
    return this.#running.ork
  }

  now(): Date {
    return new Date(this.#clock.now())
  }

  advance(duration: Duration): Promise<void> {
    return this.#clock.advance(toMs(duration, "duration"))
  }

  async crash(): Promise<void> {
    const { kill, process } = this.#running
    kill()
    this.#dead.add(process)
    await this.#startEngine()
    await this.#clock.settle()
  }

  mock<Input, Output>(
    definition: Enqueueable<Input, Output> | string,
    handler: (input: Input, context: MockContext) => Output | Promise<Output>,
  ): Mock<Input> {
    const calls: Input[] = []
    this.#mocks.set(this.#mockable!.check(definition), (input, context) => {
      calls.push(input as Input)
      return handler(input as Input, context)
    })
    return { calls }
  }

  async tasks(work: WorkRef): Promise<TaskState[]> {
    return await readTaskStates(this.#store!, this.#objects, idOf(work) as RunId)
  }

  async stop(): Promise<void> {
    const engine = this.#engine
    this.#engine = null
    // Time has to pass for handlers that do not end.
    const stopped = engine?.ork.stop({ grace: 0 })
    await this.#clock.advance(60_000)
    await stopped
    await this.#store?.close()
    await rm(this.#folder, { recursive: true, force: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  readonly enqueue = async <Input, Output>(
    definition: Enqueueable<Input, Output>,
    input: NoInfer<Input>,
    options?: EnqueueOptions | TransactionOptions,
  ): Promise<Work<Output>> =>
    this.#survivingCrash(
      await this.#ork.enqueue(definition as TaskDefinition<Input, Output>, input, options as TransactionOptions),
    )

  async enqueueAll<Input, Output>(
    definition: TaskDefinition<Input, Output>,
    inputs: readonly NoInfer<Input>[],
    options?: Omit<EnqueueOptions, "key">,
  ): Promise<Work<Output>[]> {
    return (await this.#ork.enqueueAll(definition, inputs, options)).map((work) => this.#survivingCrash(work))
  }

  async get(id: string): Promise<Work<unknown> | null> {
    const found = await this.#ork.get(id)
    return found === null ? null : this.#survivingCrash(found)
  }

  async *list(options: ListOptions): AsyncGenerator<Work<unknown>> {
    for await (const work of this.#ork.list(options)) yield this.#survivingCrash(work)
  }

  /** Continues on the next engine after a crash. */
  events(options: EventOptions = {}): AsyncGenerator<OrkEvent> {
    return this.#follow(this.#ork.events(options), options)
  }

  async *#follow(first: AsyncGenerator<OrkEvent>, options: EventOptions): AsyncGenerator<OrkEvent> {
    let events = first
    let engine = this.#engine
    let { after } = options
    while (engine !== null) {
      const next = await Promise.race([events.next(), engine.killed])
      if (next === "killed") {
        await this.#clock.settle()
        engine = this.#engine
        events = this.#ork.events({ ...options, ...(after !== undefined && { after }) })
      } else if (next.done === true) return
      else {
        after = next.value.id
        yield next.value
      }
    }
  }

  /** Returns the work with methods that use the engine that runs when they are called, also after a crash. */
  #survivingCrash<Output>(work: Work<Output>): Work<Output> {
    const current = async (): Promise<Work<Output>> => {
      const found = await this.#ork.get(work.id)
      if (found === null) throw noJobYet(work.id)
      return found as Work<Output>
    }
    return {
      ...work,
      result: async (options) => {
        for (;;) {
          const result = current().then(async (found) => ({ value: await found.result(options) }))
          const ended = await Promise.race([result, this.#running.killed])
          if (ended !== "killed") return ended.value
          await this.#clock.settle()
        }
      },
      cancel: async () => await (await current()).cancel(),
      retry: async (options) => await (await current()).retry(options),
      refresh: async () => this.#survivingCrash({ ...(await current()), created: work.created }),
    }
  }

  async signal<Payload>(
    run: WorkRef,
    definition: SignalDefinition<Payload>,
    payload: NoInfer<Payload>,
    options?: { key?: string },
  ): Promise<boolean> {
    return await this.#ork.signal(run, definition, payload, options)
  }

  async approve(run: WorkRef, name: string, options?: AnswerOptions): Promise<void> {
    await this.#ork.approve(run, name, options)
  }

  async reject(run: WorkRef, name: string, options?: AnswerOptions): Promise<void> {
    await this.#ork.reject(run, name, options)
  }

  async schedule<Input>(
    name: string,
    cron: string,
    definition: Enqueueable<Input, unknown>,
    input: NoInfer<Input>,
    options?: ScheduleOptions,
  ): Promise<void> {
    await this.#ork.schedule(name, cron, definition, input, options)
  }

  async unschedule(name: string): Promise<void> {
    await this.#ork.unschedule(name)
  }
}
