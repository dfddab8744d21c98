import { describe, expect, it } from "vitest"
import { fitsPattern, literalParts, parsePathPattern } from "./path-pattern.ts"

describe("a pattern of paths", () => {
  it.each([
    ["/in/*.csv", { store: null, root: "/", parts: ["in", "*.csv"] }],
    ["s3://bucket/in/*.csv", { store: "s3://bucket", root: "s3://bucket/", parts: ["in", "*.csv"] }],
    [
      "s3://bucket/**/a?endpoint=http://127.0.0.1:9000&path_style=true",
      { store: "s3://bucket?endpoint=http://127.0.0.1:9000&path_style=true", root: "s3://bucket/", parts: ["**", "a"] },
    ],
    ["/in/**", { store: null, root: "/", parts: ["in", "**", "*"] }],
    ["gs://bucket/done", { store: "gs://bucket", root: "gs://bucket/", parts: ["done"] }],
  ])("%s is valid", (text, pattern) => {
    expect(parsePathPattern(text)).toEqual(pattern)
  })

  it.each([
    "in/*.csv",
    "/in/",
    "/in//a",
    "/in/../a",
    "/in/a**b",
    "s3://bucket",
    "s3://b/a",
    "https://x.test/a",
    "gs://bucket/a?x=1",
    "/a\0",
  ])("%s is not valid", (text) => {
    expect(parsePathPattern(text)).toBeNull()
  })

  it.each([
    ["in/*.csv", "in/a.csv", true],
    ["in/*.csv", "in/a.csv.part", false],
    ["in/*.csv", "in/deep/a.csv", false],
    ["in/*", "in/.a.csv", false],
    ["in/.*", "in/.a.csv", true],
    ["in/!*", "in/!a", true],
    ["in/**/*.csv", "in/a.csv", true],
    ["in/**/*.csv", "in/x/y/a.csv", true],
    ["in/**/*.csv", "in/.x/a.csv", false],
    ["**/x/**/y", "a/x/b/x/y", true],
    ["**/x/**/y", "a/x/b/y/z", false],
  ])("%s and %s fit: %s", (pattern, path, fit) => {
    expect(fitsPattern(pattern.split("/"), path.split("/"))).toBe(fit)
  })

  it("names the folder before its first wildcard", () => {
    const literal = (text: string) => literalParts(parsePathPattern(text)!)
    expect(literal("/data/in/*.csv")).toEqual(["data", "in"])
    expect(literal("/data/in/a.csv")).toEqual(["data", "in"])
    expect(literal("s3://bucket/*")).toEqual([])
  })
})
