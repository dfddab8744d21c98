import type { WriteStream } from "node:tty"
import { expect, onTestFinished, test } from "vitest"
import { Screen } from "./screen.ts"

/** A terminal of `columns` that records its output. */
const setup = (columns: number) => {
  const terminal = { columns, rows: 10, written: "", write: (text: string) => ((terminal.written += text), true) }
  const screen = new Screen(terminal as unknown as WriteStream, false)
  onTestFinished(() => screen.close())
  const takeOutput = (): string => {
    const text = terminal.written
    terminal.written = ""
    return text
  }
  return { terminal, screen, takeOutput }
}

test("a second frame is drawn over the first and clears its remaining lines", () => {
  const { screen, takeOutput } = setup(20)
  screen.draw([["one"], ["two"]])
  expect(takeOutput()).toBe("\u001b[?25l\rone\u001b[K\ntwo\u001b[K\n\u001b[J")
  screen.draw([["three"]])
  expect(takeOutput()).toBe("\u001b[?25l\u001b[2A\rthree\u001b[K\n\u001b[J")
})

test("lines are truncated one column short of the terminal", () => {
  const { screen, takeOutput } = setup(5)
  screen.draw([["abcdefgh"]])
  expect(takeOutput()).toContain("\rabc…\u001b[K\n")
})

test("after the window became narrower, the wrapped rows of the last frame are counted", () => {
  const { terminal, screen, takeOutput } = setup(20)
  screen.draw([["x".repeat(15)], ["y"]])
  takeOutput()
  terminal.columns = 10
  screen.draw([])
  expect(takeOutput()).toContain("\u001b[3A\r")
})

test("closing leaves the frame and shows the cursor; so does the exit of the process", () => {
  const { screen, takeOutput } = setup(20)
  const before = process.listenerCount("exit")
  screen.draw([["one"]])
  expect(process.listenerCount("exit")).toBe(before + 1)
  takeOutput()
  screen.close()
  expect(takeOutput()).toBe("\u001b[?25h")
  expect(process.listenerCount("exit")).toBe(before)
})
