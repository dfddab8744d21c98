// Attacks that succeeded against other workflow orchestrators, as requests to this one. docs/advisories.md lists them.

import { expect, test } from "vitest"
import { ROUTES } from "../routes/table.ts"
import { ADMIN_KEY, setup } from "../testing/setup.ts"

const signIn = async (api: Awaited<ReturnType<typeof setup>>, headers: Record<string, string> = {}): Promise<string> => {
  const { headers: received } = await api.call("POST", "/ui/sign-in", { key: null, headers, body: { key: ADMIN_KEY } })
  return String(received["set-cookie"]).split(";")[0]!
}

test("a path that begins or ends like an open route requires a key", async () => {
  await using api = await setup({ config: { failuresPerMinute: 1_000_000 } })
  const open = ROUTES.filter(({ scope }) => scope === null).map(({ path }) => path.split("/").at(-1)!)
  const suffixes = [...new Set([...open, "configs", "health", "ready", "docs", "openapi.json", "ui"])].filter((word) =>
    /^[\w.-]+$/.test(word),
  )
  for (const word of suffixes) await api.deploy(word, { a: "echo private-text" })
  const paths = suffixes.flatMap((word) => [
    `/workflows/${word}`,
    `/workflows/${word}/versions`,
    `/workflows/${word}/`,
    `/workflows/${word};/health`,
    `/workflows/${word}?x=/health`,
    `/${word}/../workflows/${word}`,
    `/${word}/%2e%2e/workflows/${word}`,
    `/${word}%2f..%2fworkflows%2f${word}`,
    `//workflows/${word}`,
    `/workflows%2f${word}`,
    `/WORKFLOWS/${word}`,
  ])
  for (const path of paths) {
    for (const key of [null, "nothing"]) {
      const { status, text } = await api.call("GET", path, { key })
      expect([path, key, text.includes("private-text")]).toEqual([path, key, false])
      expect(status, path).not.toBe(500)
    }
  }
  expect((await api.call("GET", "/workflows/health")).text).toContain("private-text")
})

test("no response allows another site to read it", async () => {
  await using api = await setup()
  const cookie = await signIn(api)
  const asked = {
    origin: "https://evil.example",
    "access-control-request-method": "POST",
    "access-control-request-headers": "x-api-key",
  }
  for (const path of ["/", "/runs", "/keys", "/health", "/events/nothing", "/ui/sign-in", "/openapi.json"]) {
    for (const method of ["GET", "OPTIONS"]) {
      const { headers } = await api.call(method, path, { key: null, headers: { ...asked, cookie } })
      expect([method, path, Object.keys(headers).filter((name) => name.startsWith("access-control"))]).toEqual([
        method,
        path,
        [],
      ])
    }
  }
})

test("signing in replaces a session that the browser brings along", async () => {
  await using api = await setup()
  const planted = `ork_session=${"a".repeat(64)}`
  const cookie = await signIn(api, { cookie: planted })
  expect(cookie).not.toBe(planted)
  const read = (value: string) => api.call("GET", "/runs", { key: null, headers: { cookie: value } })
  expect((await read(cookie)).status).toBe(200)
  expect((await read(planted)).status).toBe(401)
  expect(await signIn(api, { cookie })).not.toBe(cookie)
})

test("a session is not accepted by another server with the same key", async () => {
  await using one = await setup()
  await using two = await setup()
  const cookie = await signIn(one)
  expect((await one.call("GET", "/runs", { key: null, headers: { cookie } })).status).toBe(200)
  expect((await two.call("GET", "/runs", { key: null, headers: { cookie } })).status).toBe(401)
})

test("no redirect leads to another site", async () => {
  await using api = await setup({ config: { failuresPerMinute: 1_000_000 } })
  const evil = ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)"]
  const paths = evil.flatMap((target) => [
    ...["next", "origin", "redirect", "return_to", "url"].map((name) => `/ui/sign-in?${name}=${encodeURIComponent(target)}`),
    `/ui/sign-in?token=${encodeURIComponent(target)}`,
    `/${encodeURIComponent(target)}`,
    `/ui/${encodeURIComponent(target)}`,
  ])
  for (const path of [...paths, "//evil.example", "//evil.example/%2e%2e", "/ui//evil.example/"]) {
    const { headers } = await api.call("GET", path, { key: null, headers: { accept: "text/html" } })
    const location = headers["location"]
    expect([path, location === undefined || /^\/ui\/(?!\/)[\w?=/]*$/.test(location)]).toEqual([path, true])
  }
})

test("HTML in a log, an output or a name is never sent as HTML", async () => {
  await using api = await setup()
  const html = "<img src=x onerror=alert(1)>"
  await api.deploy("page", { a: `echo ${html}` }, { description: html })
  const id = await api.runToEnd("page")
  const paths = [
    "/workflows/page",
    `/runs/${id}/tasks/a/logs`,
    `/runs/${id}/tasks/a/output`,
    `/${html}`,
    `/runs/${html}`,
    `/ui/assets/${html}`,
  ]
  for (const path of paths) {
    const { headers } = await api.call("GET", encodeURI(path), { headers: { accept: "text/html" } })
    expect([path, headers["content-type"]]).toEqual([path, expect.stringMatching(/^(application\/json|text\/plain)\b/)])
    expect(headers["x-content-type-options"], path).toBe("nosniff")
  }
})

test("SQL in the parameters of a request is only text", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "echo hi" })
  const id = await api.runToEnd("etl")
  const texts = [
    "' OR '1'='1",
    "etl' --",
    "etl'; DROP TABLE runs; --",
    "%' UNION SELECT secret FROM keys --",
    '" OR ""="',
    "\\' OR 1=1 #",
    "1) OR (1=1",
  ]
  const places = [
    "/runs?workflow=",
    "/runs?status=",
    "/runs?trigger=",
    "/runs?cursor=",
    "/workflows?search=",
    "/workflows?tag=",
    "/jobs?queue=",
  ]
  for (const place of places) {
    for (const text of texts) {
      const { status, body } = await api.call("GET", `${place}${encodeURIComponent(text)}`)
      expect([place, text, status === 400 || (body["items"] as unknown[]).length === 0]).toEqual([place, text, true])
    }
  }
  expect((await api.call("GET", `/runs/${id}`)).body).toMatchObject({ status: "success" })
})

test("no route shows the server's key or its secrets, also to an administrator", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: { command: "echo hi", env: { TOKEN: { secret: "HOOK" } } } }, { webhook: { secret: "HOOK" } })
  const id = await api.runToEnd("etl")
  const shown = ROUTES.filter(({ method, path }) => method === "GET" && !path.endsWith("events"))
  for (const { path } of shown) {
    const url = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
      name !== "name" ? id : path.includes("/tasks/") ? "a" : "etl",
    )
    const { text } = await api.call("GET", url)
    expect([url, text.includes(ADMIN_KEY), text.includes("hook-secret")]).toEqual([url, false, false])
  }
  expect(api.logged.filter((line) => line.includes(ADMIN_KEY) || line.includes("hook-secret"))).toEqual([])
})

test("a body of another type than its content is rejected, so that no field of it names a file", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "echo hi" })
  const body = JSON.stringify({ files: { f: { filepath: "/etc/passwd" } }, params: {} })
  for (const type of ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "text/html", "application/xml"]) {
    const { status } = await api.call("POST", "/workflows/etl/runs", { body, headers: { "content-type": type } })
    expect([type, status]).toEqual([type, 415])
  }
  expect(
    (await api.call("POST", "/workflows/etl/runs", { body, headers: { "content-type": "application/json" } })).status,
  ).toBe(400)
  expect((await api.call("GET", "/runs")).body["items"]).toEqual([])
})
