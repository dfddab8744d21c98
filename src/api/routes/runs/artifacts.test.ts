import { expect, test } from "vitest"
import { setup } from "../../testing/setup.ts"

const HOSTILE = "<script>alert(1)</script>"

test("artifacts are listed and downloaded as attachments, whatever they contain", async () => {
  await using api = await setup()
  await api.deploy("files", {
    make: { command: `file out/page.html ${HOSTILE};file out/a.svg <svg/>;file out/rows.json [1,2]`, artifacts: "out/*" },
    other: "true",
  })
  const id = await api.runToEnd("files")
  const get = (path: string) => api.call("GET", `/runs/${id}/tasks/${path}`)
  expect((await get("make/artifacts")).body).toEqual({
    attempt: 1,
    items: [
      { path: "out/a.svg", bytes: 6 },
      { path: "out/page.html", bytes: HOSTILE.length },
      { path: "out/rows.json", bytes: 5 },
    ],
  })
  expect((await get("other/artifacts")).body["items"]).toEqual([])
  expect((await get("make")).body["work"]).toMatchObject({ artifacts: ["out/*"] })
  for (const [file, type] of [
    ["out/page.html", "application/octet-stream"],
    ["out/a.svg", "image/svg+xml"],
  ]) {
    const { status, headers } = await get(`make/artifacts/content?file=${file}`)
    expect(status).toBe(200)
    expect(headers).toMatchObject({
      "content-type": type,
      "x-content-type-options": "nosniff",
      "content-security-policy": "default-src 'none'; sandbox",
    })
    expect(headers["content-disposition"]).toMatch(/^attachment; filename\*=UTF-8''(?:page\.html|a\.svg)$/)
  }
  expect((await get("make/artifacts/content?file=out/rows.json&length=2")).text).toBe("[1")
  for (const file of ["out/none", "../log", "out/../../log", "/etc/passwd"]) {
    expect((await get(`make/artifacts/content?file=${encodeURIComponent(file)}`)).status).toBe(404)
  }
})

test("a job cannot have artifacts", async () => {
  await using api = await setup()
  const job = { name: "j", queue: "q", task: { command: "true", artifacts: "out/*" } }
  const { status, body } = await api.call("POST", "/jobs", { body: job })
  expect([status, body]).toMatchObject([400, { error: { details: [{ path: "task.artifacts" }] } }])
})
