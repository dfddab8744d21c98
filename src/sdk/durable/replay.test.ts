// Random programs that crash in their steps: whatever is interrupted, the result is that of a program that was not.

import { expect, it } from "vitest"
import { seededRandom } from "../../store/conformance/world.ts"
import { signal, task, workflow } from "../definitions.ts"
import { testOrk } from "../test.ts"
import type { StepTools } from "./step-tools.ts"

type Op =
  | { kind: "run"; value: number }
  | { kind: "sleep"; seconds: number }
  | { kind: "wait" }
  | { kind: "call"; value: number }
  | { kind: "all"; ops: Op[] }

const MAX_DEPTH = 2
const MAX_OPS = 4

const programOf = (next: () => number, depth = 0): Op[] =>
  Array.from({ length: 1 + Math.floor(next() * MAX_OPS) }, (): Op => {
    const choice = next()
    if (choice < 0.35) return { kind: "run", value: Math.floor(next() * 1000) }
    if (choice < 0.55) return { kind: "sleep", seconds: 1 + Math.floor(next() * 100) }
    if (choice < 0.65) return { kind: "wait" }
    if (choice < 0.8 || depth === MAX_DEPTH) return { kind: "call", value: Math.floor(next() * 1000) }
    return { kind: "all", ops: programOf(next, depth + 1) }
  })

const go = signal<number>("go")

/** Plays a program, with crashes in its steps. Returns its result. */
const play = async (program: Op[], crashes: () => boolean): Promise<unknown> => {
  let crashing = false
  const square = task("square", {}, (n) => (n as number) ** 2)
  const perform = async (op: Op, path: string, step: StepTools): Promise<unknown> => {
    switch (op.kind) {
      case "run":
        return await step.run(`run ${path}`, async () => {
          if (crashes()) {
            crashing = true
            await new Promise(() => {})
          }
          return op.value
        })
      case "sleep":
        return await step.sleep(`sleep ${path}`, `${op.seconds}s`)
      case "wait":
        return (await step.waitFor(go, { timeout: "1h" })) !== null
      case "call":
        return await step.call(square, op.value, { name: `call ${path}` })
      case "all":
        return await Promise.all(op.ops.map((each, i) => perform(each, `${path}.${i}`, step)))
      default:
        return op satisfies never
    }
  }
  const flow = workflow("flow", {}, async (_, step) => {
    const results: unknown[] = []
    for (const [i, op] of program.entries()) results.push(await perform(op, String(i), step))
    return results as number[]
  })
  const ork = await testOrk({ run: [flow, square] })
  const run = await ork.enqueue(flow, {})
  // A program without waits may have ended.
  for (let sent = 0; sent < 20; sent++) await ork.signal(run, go, sent).catch(() => false)
  for (let turns = 0; turns < 200; turns++) {
    await ork.advance("10s")
    if (!crashing) continue
    crashing = false
    await ork.crash()
  }
  const result = await run.result({ timeout: 1 })
  await ork.stop()
  return result
}

it.each(Array.from({ length: 15 }, (_, seed) => seed))(
  "a program that crashes gives the same result (seed %i)",
  async (seed) => {
    const { next } = seededRandom(seed)
    const program = programOf(next)
    let left = 6
    const expected = await play(program, () => false)
    expect(await play(program, () => next() < 0.3 && left-- > 0)).toEqual(expected)
  },
)
