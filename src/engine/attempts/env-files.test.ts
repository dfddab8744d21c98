import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { FileObjectStore } from "../../objects/file/file.ts"
import { createBundle, storeBundle } from "../../objects/bundles/bundles.ts"
import { EnvFiles, variablesIn } from "./env-files.ts"
import { TaskFailure } from "./task-failure.ts"

test("the file comes from the bundle of the version, or from the folder of the definition; a missing one fails the task", async () => {
  const folder = mkdtempSync(join(tmpdir(), "ork-env-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const objects = new FileObjectStore(join(folder, "objects"))
  const bundle = createBundle([{ path: ".env", bytes: Buffer.from("PLACE=bundle\n"), executable: false }])
  await storeBundle(objects, bundle)
  writeFileSync(join(folder, ".env"), "PLACE=folder\n")
  const files = new EnvFiles({ dataDir: join(folder, "data"), objects })
  expect({ ...(await files.read(".env", { bundle: bundle.hash, workingDir: null })) }).toEqual({ PLACE: "bundle" })
  expect({ ...(await files.read(".env", { bundle: undefined, workingDir: folder })) }).toEqual({ PLACE: "folder" })
  const missing = files.read("gone.env", { bundle: undefined, workingDir: folder })
  await expect(missing).rejects.toThrow(
    new TaskFailure("env_file: the file gone.env is not beside the definition, or cannot be read"),
  )
})

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

test("a # starts a comment only after white space", () => {
  const text = 'A=a#b\nB=a #b\nC=https://x.test/#top # where\nD=#1\nE= # nothing\nF=it\'s#1\nG="a\nH=b#c" # d\n'
  expect({ ...variablesIn(text, ".env") }).toEqual({
    A: "a#b",
    B: "a",
    C: "https://x.test/#top",
    D: "#1",
    E: "",
    F: "it's#1",
    G: "a\nH=b#c",
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
