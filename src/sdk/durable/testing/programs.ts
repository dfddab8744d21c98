// Random durable programs, played by the test kit with crashes of the engine at chosen commits.

import { seededRandom } from "../../../store/conformance/world.ts"
import type { ServerStore } from "../../../store/contract/server-store.ts"
import { type Definition, signal, task, type TaskDefinition, txTask, workflow } from "../../definitions.ts"
import type { Work } from "../../orkable.ts"
import { openKit, type TestOrk } from "../../test.ts"
import type { StepTools } from "../step-tools.ts"

export type Op =
  | { kind: "run" | "flaky" | "tx" | "call" | "child"; value: number }
  | { kind: "sleep"; seconds: number }
  | { kind: "wait" | "timeout" }
  | { kind: "all" | "ifEven"; ops: Op[] }

const MAX_DEPTH = 2

/** Creates a program. `size`: most operations of a sequence. */
export const programOf = (seed: number, size: number): Op[] => {
  const { next } = seededRandom(seed)
  const upTo = (limit: number): number => Math.floor(next() * limit)
  const sequence = (depth: number): Op[] => Array.from({ length: 1 + upTo(size) }, () => operation(depth))
  const operation = (depth: number): Op => {
    const kinds: readonly Op["kind"][] = [
      "run",
      "run",
      "flaky",
      "tx",
      "call",
      "child",
      "sleep",
      "wait",
      "timeout",
      "all",
      "ifEven",
    ]
    const kind = kinds[upTo(depth === MAX_DEPTH ? kinds.length - 2 : kinds.length)]!
    switch (kind) {
      case "sleep":
        return { kind, seconds: 1 + upTo(100) }
      case "wait":
      case "timeout":
        return { kind }
      case "all":
      case "ifEven":
        return { kind, ops: sequence(depth + 1) }
      default:
        return { kind, value: upTo(1000) }
    }
  }
  return sequence(0)
}

/** Where the engine crashes: at its `commit`-th commit, counted from 1 after the start or the last crash, before or after it. */
export interface Crash {
  commit: number
  when: "before" | "after"
}

export interface Played {
  result: unknown
  /** How often the code of each step ran, by the path of its operation. */
  effects: Map<string, number>
  /** Rows that transactions wrote. */
  rows: string[]
  /** Numbers of jobs and functions that were called. */
  children: number
  /** Number of crashes that happened. */
  crashes: number
}

const go = signal<number>("go")
const never = signal<number>("never")
/** More than a program sleeps. */
const LONG = "12h"

const waitsOf = (ops: readonly Op[]): number =>
  ops.reduce((sum, op) => sum + (op.kind === "wait" ? 1 : "ops" in op ? waitsOf(op.ops) : 0), 0)

/** Store calls that commit something. */
const COMMITS = /^(?:advance|recordSteps|recordInTransaction|createJobs|createRuns|sendSignal|requestCancel|cancelJob)$/

/** Ends the engine at commits: afterwards none of its calls reaches the store, and none returns. */
class Crasher {
  readonly #crashes: Crash[]
  #commits = 0
  #armed = false
  crashed = false
  happened = 0

  constructor(crashes: readonly Crash[]) {
    this.#crashes = [...crashes]
  }

  /** Counts commits from now on. */
  arm(): void {
    this.#commits = 0
    this.#armed = true
    this.crashed = false
  }

  disarm(): void {
    this.#armed = false
  }

  bind(store: ServerStore): ServerStore {
    const forever = new Promise<never>(() => {})
    return new Proxy(store, {
      get: (target, name, receiver) => {
        const value: unknown = Reflect.get(target, name, receiver)
        if (typeof value !== "function" || !COMMITS.test(String(name))) return value
        const call = (...args: unknown[]): unknown => (value as (...values: unknown[]) => unknown).apply(target, args)
        return async (...args: unknown[]): Promise<unknown> => {
          if (this.crashed) return await forever
          const crash = this.#next()
          if (crash === "before") {
            // The code of a transaction has run when its commit fails.
            if (name === "recordInTransaction") await rolledBack(target, args as Parameters<ServerStore["recordInTransaction"]>)
            return await forever
          }
          const result = await call(...args)
          return this.crashed ? await forever : result
        }
      },
    })
  }

  /** Returns whether the engine ends at this commit. */
  #next(): Crash["when"] | null {
    const [crash] = this.#crashes
    if (!this.#armed || crash === undefined || ++this.#commits < crash.commit) return null
    this.#crashes.shift()
    this.crashed = true
    this.happened++
    return crash.when
  }
}

const rolledBack = async (store: ServerStore, [step, work]: Parameters<ServerStore["recordInTransaction"]>): Promise<void> => {
  await store
    .recordInTransaction(step, async (tx) => {
      await work(tx)
      throw new Error("the process was killed")
    })
    .catch(() => {})
}

/** Plays a program to its end. */
export const play = async (program: readonly Op[], crashes: readonly Crash[] = []): Promise<Played> => {
  const effects = new Map<string, number>()
  const crasher = new Crasher(crashes)
  const { definitions, flow, ledger, setUp, square, child } = definitionsOf(program, (path) => {
    effects.set(path, (effects.get(path) ?? 0) + 1)
  })
  await using ork = await openKit({ run: definitions, store: (store) => crasher.bind(store) })
  await (await start(ork, setUp)).result()
  const run = await ork.enqueue(flow, {})
  for (let sent = waitsOf(program); sent > 0; sent--) await ork.signal(run, go, sent)
  crasher.arm()
  for (let legs = 0; legs <= crashes.length; legs++) {
    await ork.advance(LONG)
    if (!crasher.crashed) break
    crasher.disarm()
    crasher.crashed = false
    await ork.crash()
    crasher.arm()
  }
  crasher.disarm()
  const result = await run.result({ timeout: 1 })
  const rows = await (await start(ork, ledger)).result()
  const children = (await countOf(ork, square)) + (await countOf(ork, child))
  return { result, effects, rows, children, crashes: crasher.happened }
}

const start = async <Result>(ork: TestOrk, definition: TaskDefinition<unknown, Result>): Promise<Work<Result>> => {
  const job = await ork.enqueue(definition, null)
  await ork.advance("1s")
  return job
}

const countOf = async (ork: TestOrk, def: Definition): Promise<number> => {
  return (await Array.fromAsync(ork.list({ def }))).length
}

const definitionsOf = (program: readonly Op[], effect: (path: string) => void) => {
  const setUp = txTask("set-up", {}, async (_, { tx }) => {
    await tx.query("CREATE TABLE ledger (entry text)")
    return null
  })
  const ledger = txTask("ledger", {}, async (_, { tx }) => {
    const { rows } = await tx.query("SELECT entry FROM ledger ORDER BY entry")
    return rows.map(({ entry }) => String(entry))
  })
  const square = task("square", {}, (n) => (n as number) ** 2)
  const child = workflow("child", {}, async (input, step) => {
    await step.sleep("a moment", "5s")
    return await step.run("add", () => (input as { n: number }).n + 1)
  })
  const perform = async (op: Op, path: string, step: StepTools): Promise<unknown> => {
    switch (op.kind) {
      case "run":
      case "flaky":
        return await step.run(`${op.kind} ${path}`, ({ attempt }) => {
          effect(path)
          if (op.kind === "flaky" && attempt === 1) throw new Error("busy")
          return op.value
        })
      case "tx":
        return await step.tx(`tx ${path}`, async (tx) => {
          await tx.query("INSERT INTO ledger VALUES ($1)", [path])
          return op.value
        })
      case "call":
        return await step.call(square, op.value, { name: `call ${path}` })
      case "child":
        return await step.call(child, { n: op.value }, { name: `child ${path}` })
      case "sleep":
        return await step.sleep(`sleep ${path}`, `${op.seconds}s`)
      case "wait":
        return (await step.waitFor(go)) !== null
      case "timeout":
        return await step.waitFor(never, { timeout: "5m" })
      case "all":
        return await Promise.all(op.ops.map((each, i) => perform(each, `${path}.${i}`, step)))
      case "ifEven": {
        const value = await step.run(`choose ${path}`, () => op.ops.length)
        return value % 2 === 0 ? await sequence(op.ops, path, step) : "odd"
      }
      default:
        return op satisfies never
    }
  }
  const sequence = async (ops: readonly Op[], path: string, step: StepTools): Promise<unknown[]> => {
    const results: unknown[] = []
    for (const [i, op] of ops.entries()) results.push(await perform(op, `${path}/${i}`, step))
    return results
  }
  const flow = workflow("flow", {}, async (_, step) => {
    // Time for the signals.
    await step.sleep("start", "1s")
    return (await sequence(program, "", step)) as number[]
  })
  return { definitions: [setUp, ledger, square, child, flow], flow, ledger, setUp, square, child }
}
