// Reads a line from a terminal without showing it.

import { emitKeypressEvents } from "node:readline"
import type { ReadStream, WriteStream } from "node:tty"
import { InputError } from "./errors.ts"

interface Key {
  name?: string
  ctrl?: boolean
}

/** Rejects with an InputError on Ctrl-C and Ctrl-D. */
export const readHidden = (stdin: ReadStream, screen: WriteStream, question: string): Promise<string> => {
  emitKeypressEvents(stdin)
  // The question comes after this, because the terminal shows what is typed before.
  stdin.setRawMode(true)
  screen.write(question)
  stdin.resume()
  let typed = ""
  return new Promise((resolve, reject) => {
    const end = (): void => {
      stdin.off("keypress", onKey)
      stdin.setRawMode(false)
      stdin.pause()
      screen.write("\n")
    }
    const onKey = (text: string | undefined, { name, ctrl }: Key): void => {
      if (ctrl === true && (name === "c" || name === "d")) {
        end()
        reject(new InputError("interrupted; nothing was stored"))
      } else if (name === "return" || name === "enter") {
        end()
        resolve(typed)
      } else if (name === "backspace") typed = typed.slice(0, -1)
      else if (text !== undefined && ctrl !== true) typed += text
    }
    stdin.on("keypress", onKey)
  })
}
