import { describe, expect, onTestFinished, test } from "vitest"
import { parseHttpAllow } from "../../core/settings/http-allow.ts"
import { blockReason } from "./addresses.ts"
import { type Address, guardedFetch, type GuardedInit, httpPolicy, BlockedRequest } from "./guarded-fetch.ts"
import { startWebServer } from "./testing.ts"

const policyOf = (allow: string, names: { [name: string]: string[][] } = {}) => {
  const resolved: string[] = []
  const policy = httpPolicy({
    allow: parseHttpAllow(allow)!,
    connectMs: 2000,
    resolve(host): Promise<Address[]> {
      const results = names[host]
      if (results === undefined) return Promise.reject(new Error(`getaddrinfo ENOTFOUND ${host}`))
      const calls = resolved.filter((name) => name === host).length
      resolved.push(host)
      const found = results[Math.min(calls, results.length - 1)]!
      return Promise.resolve(found.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })))
    },
  })
  onTestFinished(() => policy.close())
  const get = (url: string, init: Omit<GuardedInit, "signal"> = {}) =>
    guardedFetch(url, { ...init, signal: AbortSignal.timeout(5000) }, policy)
  return { get, resolved }
}

describe("blocked addresses", () => {
  test.each([
    ["127.0.0.1", /loopback/],
    ["127.255.255.254", /loopback/],
    ["10.1.2.3", /private/],
    ["172.16.0.1", /private/],
    ["172.31.255.255", /private/],
    ["192.168.1.1", /private/],
    ["169.254.169.254", /metadata/],
    ["169.254.1.1", /link-local/],
    ["100.64.0.1", /provider/],
    ["100.127.255.255", /provider/],
    ["0.0.0.0", /unspecified/],
    ["224.0.0.1", /multicast/],
    ["255.255.255.255", /reserved/],
    ["::", /unspecified/],
    ["::1", /loopback/],
    ["::ffff:127.0.0.1", /IPv4/],
    ["::ffff:8.8.8.8", /IPv4/],
    ["::127.0.0.1", /IPv4/],
    ["64:ff9b::7f00:1", /IPv4/],
    ["2002:7f00:1::", /6to4/],
    ["2001:0:7f00:1::", /reserved/],
    ["fd00:ec2::254", /metadata/],
    ["fc00::1", /private/],
    ["fe80::1", /link-local/],
    ["fe80::1%eth0", /link-local/],
    ["ff02::1", /multicast/],
    ["4000::1", /reserved/],
  ])("%s is blocked", (address, reason) => {
    expect(blockReason(address)).toMatch(reason)
  })

  test.each(["8.8.8.8", "172.15.0.1", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111"])("%s is not blocked", (address) => {
    expect(blockReason(address)).toBeNull()
  })

  test.each([
    ["http://127.0.0.1/", /127\.0\.0\.1 is a loopback address.*"127\.0\.0\.1" to http_allow.*ORK_HTTP_ALLOW/],
    ["http://[::1]/", /loopback/],
    ["http://[::ffff:7f00:1]/", /IPv4/],
    ["http://2130706433/", /hides its address; write 127\.0\.0\.1/],
    ["http://0x7f.1/", /hides its address/],
    ["http://0177.0.0.1/", /hides its address/],
    ["http://127.1/", /hides its address/],
    ["http://127.0.0.1./", /loopback/],
    ["http://metadata.google.internal/", /metadata/],
    ["http://METADATA.google.internal./", /metadata/],
    ["http://169.254.169.254/latest/meta-data", /metadata/],
    ["file:///etc/passwd", /only http: and https: are/],
    ["ftp://example.com/", /only http: and https: are/],
    ["not a url", /is not a URL/],
    ["http://example.com:25/", /port 25 belongs to another protocol/],
  ])("a request to %s is blocked", async (url, reason) => {
    const { get } = policyOf("", { "metadata.google.internal": [["8.8.8.8"]], "metadata.google.internal.": [["8.8.8.8"]] })
    const response = get(url)
    await expect(response).rejects.toThrow(BlockedRequest)
    await expect(response).rejects.toThrow(reason)
  })

  test("a request to a host with a blocked address is blocked", async () => {
    const { get } = policyOf("", { "inner.example": [["10.0.0.7"]] })
    await expect(get("http://inner.example/")).rejects.toThrow(/inner\.example is 10\.0\.0\.7, a private address/)
  })
})

describe("a name", () => {
  test("that changes between check and connect is connected to the checked address", async () => {
    const web = await startWebServer((_, response) => response.end("here"))
    // Only the first address is allowed; the name must not be resolved a second time.
    const { get, resolved } = policyOf("127.0.0.1", { "rebind.example": [["127.0.0.1"], ["10.0.0.1"]] })
    expect(await (await get(`http://rebind.example:${web.port}/`)).text()).toBe("here")
    expect(resolved).toEqual(["rebind.example"])
    expect(web.requests[0]?.headers.host).toBe(`rebind.example:${web.port}`)
  })

  test("with allowed and blocked addresses is connected to an allowed one", async () => {
    const web = await startWebServer((_, response) => response.end("here"))
    const { get } = policyOf("127.0.0.1", { "both.example": [["10.0.0.1", "127.0.0.1"]] })
    expect((await get(`http://both.example:${web.port}/`)).status).toBe(200)
  })

  test("that is not resolved in time fails the request", async () => {
    const policy = httpPolicy({ allow: [], connectMs: 20, resolve: () => new Promise(() => {}) })
    onTestFinished(() => policy.close())
    const failed = guardedFetch("http://slow.example/", { signal: AbortSignal.timeout(5000) }, policy)
    await expect(failed).rejects.toMatchObject({ cause: { message: "slow.example was not resolved within 20 ms" } })
  })
})

describe("the allow list", () => {
  test.each([["127.0.0.1"], ["127.0.0.0/8"], ["127.0.0.1:PORT"], ["*"], ["localhost, 127.0.0.1"]])(
    "%s allows the request",
    async (allow) => {
      const web = await startWebServer((_, response) => response.end("ok"))
      const { get } = policyOf(allow.replace("PORT", String(web.port)))
      expect((await get(web.url)).status).toBe(200)
    },
  )

  test.each([["127.0.0.1:1"], ["127.0.0.2"], ["other.example"], ["*.other.example"]])(
    "%s does not allow other requests",
    async (allow) => {
      const web = await startWebServer((_, response) => response.end("ok"))
      const { get } = policyOf(allow, { "my.example": [["127.0.0.1"]], "other.example": [["10.0.0.1"]] })
      await expect(get(web.url)).rejects.toThrow(BlockedRequest)
      await expect(get(`http://my.example:${web.port}`)).rejects.toThrow(BlockedRequest)
      expect(web.requests).toEqual([])
    },
  )

  test("may contain names and wildcards for subdomains", async () => {
    const web = await startWebServer((_, response) => response.end("ok"))
    const { get } = policyOf("my.example *.their.example", {
      "my.example": [["127.0.0.1"]],
      "a.their.example": [["127.0.0.1"]],
      "their.example": [["127.0.0.1"]],
    })
    expect((await get(`http://my.example:${web.port}`)).status).toBe(200)
    expect((await get(`http://a.their.example:${web.port}`)).status).toBe(200)
    await expect(get(`http://their.example:${web.port}`)).rejects.toThrow(BlockedRequest)
  })

  test.each(["10.0.0.0/33", "1.2.3", "a b:0", "http://x", "[::1", "x:99999", "::1::/8"])("rejects the entry %s", (entry) => {
    expect(parseHttpAllow([entry])).toBeNull()
  })
})

describe("a redirect", () => {
  test("is checked", async () => {
    const web = await startWebServer((_, response) => response.writeHead(302, { location: "http://10.0.0.1/secret" }).end())
    const { get } = policyOf("127.0.0.1")
    await expect(get(web.url)).rejects.toThrow(/10\.0\.0\.1 is a private address/)
  })

  test("to a name is checked after it is resolved", async () => {
    const web = await startWebServer((_, response) => response.writeHead(302, { location: "http://inner.example/" }).end())
    const { get } = policyOf("127.0.0.1", { "inner.example": [["192.168.0.1"]] })
    await expect(get(web.url)).rejects.toThrow(/inner\.example is 192\.168\.0\.1/)
  })

  test("to another host drops every header that may be a credential, and one to the same host keeps them", async () => {
    const other = await startWebServer((_, response) => response.end("there"))
    const web = await startWebServer(({ path }, response) =>
      response.writeHead(302, { location: path === "/" ? "/again" : `${other.url}/x` }).end(),
    )
    const { get } = policyOf("127.0.0.1")
    const headers = { Authorization: "Bearer t", cookie: "a=b", "X-Key": "k", Accept: "text/plain" }
    expect(await (await get(web.url, { headers })).text()).toBe("there")
    expect(web.requests.map(({ headers: { authorization, cookie } }) => [authorization, cookie])).toEqual([
      ["Bearer t", "a=b"],
      ["Bearer t", "a=b"],
    ])
    expect(other.requests[0]?.headers).toMatchObject({ accept: "text/plain" })
    expect(Object.keys(other.requests[0]!.headers)).not.toEqual(expect.arrayContaining(["authorization"]))
    expect([other.requests[0]!.headers.cookie, other.requests[0]!.headers["x-key"]]).toEqual([undefined, undefined])
  })

  test.each([
    [301, "POST", "GET"],
    [302, "POST", "GET"],
    [303, "PUT", "GET"],
    [307, "POST", "POST"],
    [308, "PUT", "PUT"],
    [302, "PUT", "PUT"],
  ])("with %i changes the method %s to %s", async (status, method, then) => {
    const web = await startWebServer(({ path }, response) =>
      path === "/" ? response.writeHead(status, { location: "/next" }).end() : response.end(),
    )
    const { get } = policyOf("127.0.0.1")
    await get(web.url, { method, body: "data", headers: { "content-type": "text/plain" } })
    expect(web.requests[1]).toMatchObject({ method: then, body: then === "GET" ? "" : "data" })
    expect(web.requests[1]!.headers["content-type"]).toBe(then === "GET" ? undefined : "text/plain")
  })

  test.each([307, 308])("with %i to another host does not take the body there", async (status) => {
    const other = await startWebServer((_, response) => response.end("there"))
    const web = await startWebServer((_, response) => response.writeHead(status, { location: other.url }).end())
    const { get } = policyOf("127.0.0.1")
    await expect(get(web.url, { method: "POST", body: "secret" })).rejects.toThrow(/redirected a request with a body to/)
    expect(other.requests).toEqual([])
  })

  test("is followed up to the limit; with a limit of 0 it is the response", async () => {
    const web = await startWebServer((_, response) => response.writeHead(302, { location: "/" }).end())
    const { get } = policyOf("127.0.0.1")
    await expect(get(web.url, { redirects: 3 })).rejects.toThrow(/redirected more than 3 times/)
    expect(web.requests).toHaveLength(4)
    expect((await get(web.url, { redirects: 0 })).status).toBe(302)
  })
})

test("credentials in the URL are sent as a header", async () => {
  const web = await startWebServer((_, response) => response.end())
  const { get } = policyOf("127.0.0.1")
  await get(`http://me:p%40ss@127.0.0.1:${web.port}/x`)
  expect(web.requests[0]).toMatchObject({
    path: "/x",
    headers: { authorization: `Basic ${Buffer.from("me:p@ss").toString("base64")}` },
  })
})
