import { expect, test } from "vitest"
import { variablesIn } from "./env-files.ts"

test("a file has a variable per line, with comments, quotes and export", () => {
  const text = `# database\nHOST=db.example.org\nexport PORT = 5432\n\nNAME="two words" # name\nNOTE='a # b'\nEMPTY=\n`
  expect({ ...variablesIn(text, ".env") }).toEqual({
    HOST: "db.example.org",
    PORT: "5432",
    NAME: "two words",
    NOTE: "a # b",
    EMPTY: "",
  })
})

test("a value in quotes may have several lines", () => {
  expect({ ...variablesIn('KEY="one\ntwo"\nX=1\n', ".env") }).toEqual({ KEY: "one\ntwo", X: "1" })
})

test.each([
  ["A=1\nnonsense\n", "line 2 of .env is not a variable; write NAME=value"],
  ["ORK_RUN_ID=1\n", ".env: ORK_RUN_ID is set by Ork; choose another name"],
  ["A-B=1\n", '.env: "A-B" is not a valid name of an environment variable'],
])("what is not a variable is an error: %j", (text, message) => {
  expect(() => variablesIn(text, ".env")).toThrow(`env_file: ${message}`)
})
