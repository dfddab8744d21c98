import type { WriteStream } from "node:tty"
import { expect, onTestFinished, test } from "vitest"
import { Screen } from "./screen.ts"

/** A terminal of `columns` that keeps what is written. */
const setup = (columns: number) => {
  const terminal = { columns, rows: 10, written: "", write: (text: string) => ((terminal.written += text), true) }
  const screen = new Screen(terminal as unknown as WriteStream, false)
  onTestFinished(() => screen.close())
  const taken = (): string => {
    const text = terminal.written
    terminal.written = ""
    return text
  }
  return { terminal, screen, taken }
}

test("a second frame is drawn over the first and clears what was below", () => {
  const { screen, taken } = setup(20)
  screen.draw([["one"], ["two"]])
  expect(taken()).toBe("\u001b[?25l\rone\u001b[K\ntwo\u001b[K\n\u001b[J")
  screen.draw([["three"]])
  expect(taken()).toBe("\u001b[?25l\u001b[2A\rthree\u001b[K\n\u001b[J")
})

test("lines are cut one column short of the terminal", () => {
  const { screen, taken } = setup(5)
  screen.draw([["abcdefgh"]])
  expect(taken()).toContain("\rabc…\u001b[K\n")
})

test("after the window became narrower the wrapped rows of the last frame are counted", () => {
  const { terminal, screen, taken } = setup(20)
  screen.draw([["x".repeat(15)], ["y"]])
  taken()
  terminal.columns = 10
  screen.draw([])
  expect(taken()).toContain("\u001b[3A\r")
})

test("closing leaves the frame and shows the cursor; the exit of the process shows it too", () => {
  const { screen, taken } = setup(20)
  const before = process.listenerCount("exit")
  screen.draw([["one"]])
  expect(process.listenerCount("exit")).toBe(before + 1)
  taken()
  screen.close()
  expect(taken()).toBe("\u001b[?25h")
  expect(process.listenerCount("exit")).toBe(before)
})
