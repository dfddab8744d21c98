import { type FunctionContext, FatalError } from "ork"

export const count = ({ text }: { text: string }, ctx: FunctionContext) => {
  // A retry would not help: the task fails at once, even if retries are left.
  if (text === "") throw new FatalError("there is no text to count")
  ctx.log(`part ${ctx.parallelIndex} of ${ctx.parallelCount}`)
  return { words: text.split(" ").length }
}

export default async ({ words }: { words: { words: number }[] }) => {
  const total = words.reduce((sum, part) => sum + part.words, 0)
  console.log(`${total} words in ${words.length} parts`)
  return { total }
}
