import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { setup } from "../testing/setup.ts"

const build = (files: Record<string, string>): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-web-ui-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(join(folder, "assets"))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

const serve = (webUiDir: string) => setup({ config: { webUiDir } })

const FILES = { "index.html": "<p>index</p>", "assets/a-1.js": "plain", "assets/a-1.js.br": "br", "assets/a-1.js.gz": "gz" }

test("the web UI requires no key, is revalidated on each request, and allows only its own scripts", async () => {
  await using api = await serve(build(FILES))
  const { status, text, headers } = await api.call("GET", "/ui/", { key: null })
  expect([status, text, headers["cache-control"]]).toEqual([200, "<p>index</p>", "no-cache"])
  expect(headers["content-security-policy"]).toMatch(/default-src 'none'; script-src 'self'; style-src 'self'/)
  expect(headers["content-security-policy"]).not.toContain("unsafe")
  expect([headers["x-content-type-options"], headers["referrer-policy"]]).toEqual(["nosniff", "no-referrer"])
  const root = await api.call("GET", "/", { key: null })
  expect([root.status, root.headers["location"]]).toEqual([302, "/ui/"])
})

test("every path inside the web UI gets index.html, a missing asset gets 404", async () => {
  await using api = await serve(build(FILES))
  expect((await api.call("GET", "/ui/runs/1?tab=graph", { key: null })).text).toBe("<p>index</p>")
  expect((await api.call("GET", "/ui", { key: null })).text).toBe("<p>index</p>")
  expect((await api.call("GET", "/ui/assets/old-2.js", { key: null })).status).toBe(404)
})

test("assets are immutable and sent in the best encoding that the browser accepts", async () => {
  await using api = await serve(build(FILES))
  const get = async (encoding: string) => {
    const { text, headers } = await api.call("GET", "/ui/assets/a-1.js", {
      key: null,
      headers: { "accept-encoding": encoding },
    })
    return [text, headers["content-encoding"], headers["content-type"], headers["cache-control"]]
  }
  const rest = ["text/javascript; charset=utf-8", "public, max-age=31536000, immutable"]
  expect(await get("gzip, deflate, br")).toEqual(["br", "br", ...rest])
  expect(await get("gzip, br;q=0")).toEqual(["gz", "gzip", ...rest])
  expect(await get("identity")).toEqual(["plain", undefined, ...rest])
})

test("assets without compressed copies are compressed on request", async () => {
  const text = "const a = 1\n".repeat(1000)
  await using api = await serve(build({ "index.html": "<p>index</p>", "assets/a-1.js": text, "assets/b-1.js": "short" }))
  const get = (name: string, encoding: string) =>
    api.call("GET", `/ui/assets/${name}`, { key: null, headers: { "accept-encoding": encoding } })
  const compressed = await get("a-1.js", "gzip, br")
  expect(compressed.headers["content-encoding"]).toBe("gzip")
  expect(compressed.text.length).toBeLessThan(text.length / 10)
  expect((await get("a-1.js", "identity")).text).toBe(text)
  expect((await get("b-1.js", "gzip")).headers["content-encoding"]).toBeUndefined()
})

test("a running server serves a rebuilt web UI", async () => {
  const folder = build(FILES)
  await using api = await serve(folder)
  expect((await api.call("GET", "/ui/", { key: null })).text).toBe("<p>index</p>")
  writeFileSync(join(folder, "index.html"), "<p>rebuilt</p>")
  utimesSync(join(folder, "index.html"), 1, 1)
  writeFileSync(join(folder, "assets/b-2.js"), "new")
  expect((await api.call("GET", "/ui/assets/b-2.js", { key: null })).text).toBe("new")
  expect((await api.call("GET", "/ui/", { key: null })).text).toBe("<p>rebuilt</p>")
})

test("no path leads out of the build folder", async () => {
  await using api = await serve(build(FILES))
  for (const path of ["/ui/../package.json", "/ui/..%2f..%2fetc%2fpasswd", "/ui/assets/..%2f..%2fsecret", "/ui/%00"]) {
    expect((await api.call("GET", path, { key: null })).text).toMatch(/^<p>index<\/p>$|"error"/)
  }
})

test("a missing build is reported with the command that builds it", async () => {
  await using api = await serve("/nowhere")
  const { status, body } = await api.call("GET", "/ui/", { key: null })
  expect([status, body.error!.message]).toEqual([404, "the web UI is not built; run `npm run build`"])
})
