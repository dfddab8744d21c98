import { expect, test } from "vitest"
import { maskJson } from "./mask.ts"
import { maskJsonStream } from "./mask-json-stream.ts"
import type { Json } from "../core/values/json.ts"

const inPieces = async function* (text: string, size: number): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

const mask = async (text: string, secrets: string[], size: number): Promise<Json> =>
  JSON.parse((await Array.fromAsync(maskJsonStream(inPieces(text, size), secrets))).join("")) as Json

const VALUE: Json = {
  plain: "a hunter2 b",
  hunter2: ["hunter2", 'quoted"value', "newline\nabc", "grüße 😀 hunter2😀", "\u0000\ud83d\ude00"],
  numbers: [123456, 1234567, -5.5, 1e3, 0],
  "123456": true,
  empty: "",
  none: null,
  deep: { list: [[], {}, ["\\hunter2\\"]] },
}

const SECRETS = ["hunter2", 'quoted"value', "123456", "nab", "üße 😀", "true,"]

test.each([1, 2, 3, 5, 7, 13, 1000])("a text in pieces of %i bytes is masked like its value", async (size) => {
  for (const text of [JSON.stringify(VALUE), JSON.stringify(VALUE, null, 2), asciiJson(VALUE)]) {
    expect(await mask(text, SECRETS, size)).toEqual(maskJson(VALUE, SECRETS))
    expect(await mask(text, [], size)).toEqual(VALUE)
  }
  expect(await mask("123456", ["123456"], size)).toBe("***")
})

test.each([1, 2, 3, 7, 1000])("half of a character is replaced, in pieces of %i bytes", async (size) => {
  const value = { cut: "\ud83d", next: "hunter2", both: "\ud83d\ud83d\ude00", low: "\ude00" }
  const masked = { cut: "\ufffd", next: "***", both: "\ufffd\u{1f600}", low: "\ufffd" }
  expect(await mask(JSON.stringify(value), ["hunter2"], size)).toEqual(masked)
  expect(await mask(asciiJson(value), ["hunter2"], size)).toEqual(masked)
})

/** Returns JSON in which other characters than ASCII are escaped. */
const asciiJson = (value: Json): string =>
  JSON.stringify(value).replaceAll(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)
