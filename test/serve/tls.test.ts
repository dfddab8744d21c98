// TLS, and the refusal of plain HTTP on addresses that other machines reach.

import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { request } from "node:https"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"
import { startOrk } from "../support/ork-process.ts"

const createCertificate = (cwd: string): void => {
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
  const files = ["-keyout", "tls.key", "-out", "tls.crt"]
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", ...subject, ...files], {
    cwd,
    stdio: "ignore",
  })
}

const get = (url: string, headers: Record<string, string>, ca: Buffer) =>
  new Promise<number>((resolve, reject) => {
    request(url, { headers, ca }, (response) => resolve(response.resume().statusCode!))
      .on("error", reject)
      .end()
  })

describe("ork serve with a certificate", () => {
  it("serves HTTPS, also to commands and workers", async () => {
    const cwd = temporaryFolder()
    createCertificate(cwd)
    const env = { NODE_EXTRA_CA_CERTS: join(cwd, "tls.crt"), ORK_LOG: "error" }
    const server = startOrk(["serve", "--host", "0.0.0.0", "--port", "0", "--tls-cert", "tls.crt", "--tls-key", "tls.key"], {
      cwd,
      env,
    })
    await server.printed(/is ready at https:\/\/\S+/)
    const port = /is ready at https:\/\/\S+:(\d+)/.exec(server.stdout)![1]!
    const url = `https://127.0.0.1:${port}`
    const key = readFileSync(join(cwd, ".ork/admin.key"), "utf8").trim()
    const ca = readFileSync(join(cwd, "tls.crt"))
    expect(await get(`${url}/runs`, { "x-api-key": key }, ca)).toBe(200)
    const elsewhere = temporaryFolder()
    const listed = await ork(["workers", "--url", url, "--api-key", key], { cwd: elsewhere, env })
    expect([listed.code, listed.stderr]).toEqual([0, ""])
    const worker = startOrk(["worker", "--server", url, "--api-key", key], { cwd: elsewhere, env })
    await worker.printed(/claims work from https:/)
    worker.kill("SIGTERM")
    await worker.exit
  })

  it.each([
    [["--tls-cert", "tls.crt"], /TLS needs both --tls-cert and --tls-key/],
    [["--tls-cert", "no.crt", "--tls-key", "no.key"], /no\.crt/],
  ])("rejects %j", async (args, message) => {
    const { code, stderr } = await ork(["serve", ...args], { cwd: temporaryFolder() })
    expect(code).toBe(2)
    expect(stderr).toMatch(message)
  })
})

describe("plain HTTP on an address that other machines reach", () => {
  it.each([["0.0.0.0"], ["::"], ["192.0.2.1"]])("is refused on %s, with advice", async (host) => {
    const { code, stderr } = await ork(["serve", "--host", host, "--port", "0"], { cwd: temporaryFolder() })
    expect(code).toBe(2)
    expect(stderr).toMatch(/plain HTTP shows them keys and data: give --tls-cert and --tls-key, or --insecure-http/)
  })

  it("is refused for a worker that listens", async () => {
    const env = { ORK_HOST: "0.0.0.0", ORK_API_KEY: "a-key-of-sixteen" }
    const { code, stderr } = await ork(["worker", "--listen", "0"], { cwd: temporaryFolder(), env })
    expect([code, stderr]).toEqual([2, expect.stringContaining("--insecure-http")])
  })

  it("is served with --insecure-http", async () => {
    const server = startOrk(["serve", "--host", "0.0.0.0", "--port", "0", "--insecure-http"], { cwd: temporaryFolder() })
    await server.printed(/is ready at http:/)
    server.kill("SIGTERM")
    await server.exit
  })
})
