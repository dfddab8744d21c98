import { afterEach, describe, expect, it, vi } from "vitest"
import type { ExpressionScope } from "../../core/expressions/expressions.ts"
import { createEvaluator, inlineEvaluator } from "./evaluator.ts"
import type { Evaluator } from "../ports.ts"

const scope = (values: Partial<ExpressionScope> = {}): ExpressionScope => ({
  params: { limit: 3, words: ["a", "b"] },
  tasks: { list: { output: { rows: [1, 2, 3] }, status: "success" }, other: { output: "x".repeat(100), status: "success" } },
  run: { id: "r", workflow: "w", logical_date: null, date: null, trigger: "manual", cause: null },
  ...values,
})

describe("the evaluator", () => {
  let evaluator: Evaluator | undefined
  const setup = (timeoutMs?: number): Evaluator => (evaluator = createEvaluator(timeoutMs === undefined ? {} : { timeoutMs }))
  afterEach(() => evaluator?.stop())

  it("answers bounded expressions at once, without a promise", () => {
    const { evaluate, render } = setup()
    expect(evaluate("params.limit + 1", scope())).toBe(4)
    expect(evaluate("tasks.list.output.rows[1]", scope())).toBe(2)
    expect(render({ text: ["n=", { expr: "params.limit" }] }, scope())).toBe("n=3")
    expect(() => evaluate("params.none", scope())).toThrow('params has no field "none" (it has limit, words)')
  })

  it("answers comprehensions through a thread, in the order asked", async () => {
    const { evaluate } = setup(10_000)
    const answers = await Promise.all([
      evaluate("tasks.list.output.rows.map(r, r * 2)", scope()),
      evaluate("params.words.exists(w, w == 'b')", scope()),
    ])
    expect(answers).toEqual([[2, 4, 6], true])
  })

  it("renders a template whose parts run in different places", async () => {
    const template = {
      map: { doubled: { expr: "params.words.map(w, w + w)" }, limit: { expr: "params.limit" }, fixed: { lit: 1 } },
    }
    const { render } = setup(10_000)
    expect(await render(template, scope())).toEqual({ doubled: ["aa", "bb"], limit: 3, fixed: 1 })
    expect(inlineEvaluator.render(template, scope())).toEqual({ doubled: ["aa", "bb"], limit: 3, fixed: 1 })
  })

  it("ends an evaluation that takes too long, and goes on with the next", async () => {
    const { evaluate } = setup(500)
    const many = scope({ item: Array.from({ length: 3000 }, (_, i) => i) })
    const slow = evaluate("item.map(a, item.map(b, a * b)).size()", many)
    await expect(slow).rejects.toThrow(/item\.map.*took longer than 500 ms/)
    await expect(evaluate("[1, 2].map(x, x)", scope())).resolves.toEqual([1, 2])
  })

  it("tells errors of the thread like its own", async () => {
    const { evaluate } = setup(10_000)
    await expect(evaluate("params.words.map(w, w.none)", scope())).rejects.toThrow(/^\$\{\{ params\.words\.map/)
  })

  describe("of large texts", () => {
    const textOf = (key: string, value: unknown) => {
      const bytes = Buffer.from(JSON.stringify(value))
      return { key, bytes: bytes.length, read: vi.fn(() => Promise.resolve<Uint8Array>(bytes)) }
    }
    const withText = (key: string, value: unknown) => {
      const text = textOf(key, value)
      const tasks = { list: { output: null, status: "success" }, other: { output: 1, status: "success" } }
      return { text, large: scope({ tasks, texts: { list: text } }) }
    }

    it("parses them in the thread, once", async () => {
      const { evaluate, render } = setup(10_000)
      const { text, large } = withText("a", { rows: [4, 5], name: "ä" })
      const parse = vi.spyOn(JSON, "parse")
      expect(evaluate("tasks.other.output + 1", large)).toBe(2)
      expect(evaluate("tasks.list.status", large)).toBe("success")
      expect(parse).not.toHaveBeenCalled()
      expect(await evaluate("tasks.list.output.rows", large)).toEqual([4, 5])
      expect(await evaluate("tasks.list.output.name + 'b'", large)).toBe("äb")
      expect(await render({ text: ["n=", { expr: "size(tasks.list.output.rows)" }] }, large)).toBe("n=2")
      expect(parse.mock.calls.every(([json]) => !json.includes("rows"))).toBe(true)
      parse.mockRestore()
      expect(text.read).toHaveBeenCalledTimes(1)
      expect(await inlineEvaluator.evaluate("tasks.list.output.rows[1]", large)).toBe(5)
    })

    it("reads them again after the thread was replaced", async () => {
      const { evaluate } = setup(500)
      const { text, large } = withText(
        "a",
        Array.from({ length: 3000 }, (_, i) => i),
      )
      expect(await evaluate("tasks.list.output[7]", large)).toBe(7)
      const slow = evaluate("tasks.list.output.map(a, tasks.list.output.map(b, a * b)).size()", large)
      await expect(slow).rejects.toThrow(/took longer than/)
      expect(await evaluate("tasks.list.output[8]", large)).toBe(8)
      expect(text.read).toHaveBeenCalledTimes(2)
    })

    it("returns a long list in parts, and rejects any other long value", async () => {
      const { evaluate } = setup(10_000)
      const rows = Array.from({ length: 100_000 }, (_, id) => ({ id, text: "x".repeat(50) }))
      const { large } = withText("rows", { rows })
      expect(await evaluate("tasks.list.output.rows", large)).toEqual(rows)
      await expect(evaluate("tasks.list.output", large)).rejects.toThrow(
        /\$\{\{ tasks\.list\.output \}\}: its value is larger than 4 MiB; .*\$ORK_INPUT/,
      )
    })

    it("rejects more than 16 MiB without reading it", async () => {
      const { evaluate } = setup()
      const { text, large } = withText("a", "x".repeat(16 * 1024 * 1024))
      await expect(evaluate("size(tasks.list.output)", large)).rejects.toThrow("it reads more than 16 MiB")
      expect(text.read).not.toHaveBeenCalled()
    })

    it("checks them against a schema", async () => {
      const { check } = setup(10_000)
      const text = textOf("a", { n: 5 })
      expect(await check({ type: "object" }, text)).toBeNull()
      expect(await check({ properties: { n: { maximum: 4 } } }, text)).toMatch(/n must be <= 4/)
      expect(await inlineEvaluator.check({ type: "array" }, text)).toMatch(/must be array/)
      expect(text.read).toHaveBeenCalledTimes(2)
    })

    it("reports a text that needs too much memory", async () => {
      const { check } = setup(20_000)
      const objects = { key: "many", bytes: 16_000_000, read: async () => Buffer.from(`[${"{},".repeat(5_300_000)}{}]`) }
      expect(await check({ type: "array" }, objects)).toMatch(/needed more than 256 MB of memory/)
    })
  })

  it("rejects what waits when it is stopped", async () => {
    const { evaluate, stop } = setup()
    const waiting = evaluate("[1].map(x, x)", scope())
    await Promise.all([expect(waiting).rejects.toThrow("has stopped"), stop()])
    await expect(evaluate("[1].map(x, x)", scope())).rejects.toThrow("has stopped")
  })

  it("evaluates large operands in the thread, where they cannot exhaust the server's memory", async () => {
    const { evaluate } = setup(20_000)
    const large = scope({ params: { v: "x".repeat(900_000), small: "y" } })
    expect(evaluate("params.v", large)).toHaveLength(900_000)
    expect(evaluate("params.small + '!'", large)).toBe("y!")
    expect(await evaluate("size(params.v)", large)).toBe(900_000)
    const sum = Array.from({ length: 500 }, () => "params.v").join(" + ")
    await expect(evaluate(`size(${sum})`, large)).rejects.toThrow(/memory|longer than|16 MiB/)
    expect(await evaluate("size(params.v)", large)).toBe(900_000)
  })

  it("counts each use of an operand", async () => {
    const { evaluate } = setup(20_000)
    const params = { v: "x".repeat(100_000) }
    expect(evaluate("params.v + params.v", scope({ params }))).toHaveLength(200_000)
    const inThread = evaluate("params.v + params.v + params.v", scope({ params }))
    expect(inThread).toBeInstanceOf(Promise)
    expect(await inThread).toHaveLength(300_000)
  })

  it("rejects operands that are too large for the thread", async () => {
    const { evaluate } = setup()
    const item = Array.from({ length: 3_000_000 }, () => 1)
    await expect(evaluate("size(item)", scope({ item }))).rejects.toThrow("reads more than 16 MiB")
  })
})
