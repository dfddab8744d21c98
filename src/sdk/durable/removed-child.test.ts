// Children of durable functions that are removed, by hand or by retention, after their end and before the function has read it.

import { expect, it } from "vitest"
import type { RunId } from "../../core/model/ids.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"
import { task, workflow } from "../definitions.ts"
import type { Work } from "../orkable.ts"
import { openKit } from "../test.ts"

it.each(["job", "run"] as const)(
  "a child %s that was removed before the function saw its end does not run again",
  async (kind) => {
    const effects: string[] = []
    const double = task("double", {}, () => void effects.push("job"))
    const inner = workflow("inner", {}, async (_, step) => await step.run("effect", () => void effects.push("run")))
    const outer = workflow("outer", {}, async (_, step) => {
      await step.call(kind === "job" ? double : inner, {}, { name: "child" })
    })
    let run: Work<unknown> | null = null
    let store: ServerStore | null = null
    const children = new Set<string>()
    const bind = (bound: ServerStore): ServerStore => {
      store = bound
      const recordSteps: ServerStore["recordSteps"] = async (steps) => {
        // The function does not see the end of its child while its run is paused.
        if (steps.some(({ name }) => name === "child")) await bound.setPaused(run!.id as RunId, true)
        for (const { details } of steps) if (details !== null) children.add((details as { id: string }).id)
        return await bound.recordSteps(steps)
      }
      return { ...bound, recordSteps }
    }
    await using ork = await openKit({ run: [outer, inner, double], store: bind })
    run = await ork.enqueue(outer, {})
    await ork.advance("1m")
    expect(effects).toEqual([kind])
    const [child] = children
    if (kind === "job") expect(await store!.deleteJob(child!)).toBeNull()
    else expect(await store!.removeRun(child as RunId, 100)).toBe(true)
    await store!.setPaused(run.id as RunId, false)
    await ork.crash()
    await ork.advance("1m")
    await expect(run.result()).rejects.toThrow(/is gone/)
    expect([effects, children.size]).toEqual([[kind], 1])
  },
)
