import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { expect, onTestFinished, test, vi } from "vitest"
import { GoogleApiError } from "./api-error.ts"
import { ResponseTooLarge } from "./google-api.ts"
import { CloudLoggingApi } from "./logging-api.ts"

const REQUEST = { project: "acme", filter: "", pageSize: 10, pageToken: "" }

const serve = async (status: number, body: string): Promise<CloudLoggingApi> => {
  const server = createServer((request, response) => {
    request.resume()
    response.writeHead(status, { "content-type": "application/json" })
    response.end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void server.close())
  return new CloudLoggingApi(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
}

test("a response without entries is an empty page with the time of Google's clock", async () => {
  const api = await serve(200, "{}")
  const page = await api.list(REQUEST)
  expect(page).toMatchObject({ entries: [], next: "" })
  expect(Math.abs((page.at ?? 0) - Date.now())).toBeLessThan(60_000)
})

test("a response that is too large is rejected before it is in memory", async () => {
  const api = await serve(200, JSON.stringify({ entries: [{ textPayload: "x".repeat(9 << 20) }] }))
  await expect(api.list(REQUEST)).rejects.toThrow(ResponseTooLarge)
})

test.each([
  ["an error of Google", 429, '{"error": {"message": "Quota exceeded"}}', 429, "Quota exceeded"],
  ["an error of a proxy", 502, "<html>Bad Gateway</html>", 502, "status 502: <html>Bad Gateway</html>"],
  ["an incomplete response", 200, '{"entries": [', null, "Cloud Logging cannot be reached: "],
])("%s is reported with its message", async (_, status, body, reported, message) => {
  const api = await serve(status, body)
  const error = await api.list(REQUEST).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(GoogleApiError)
  expect(error).toMatchObject({ status: reported, message: expect.stringContaining(message) as string })
})

test("a refused connection and missing credentials are reported with the reason", async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const refused = new CloudLoggingApi(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  await new Promise((resolve) => server.close(resolve))
  await expect(refused.list(REQUEST)).rejects.toThrow(/Cloud Logging cannot be reached: .*ECONNREFUSED/)
  vi.stubEnv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/key.json")
  onTestFinished(() => void vi.unstubAllEnvs())
  await expect(new CloudLoggingApi("").list(REQUEST)).rejects.toThrow(
    /Cloud Logging cannot be reached: .*\/no\/such\/key\.json/,
  )
})

test("a pending request is rejected when the client is closed", async () => {
  const server = createServer(() => {})
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const api = new CloudLoggingApi(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const pending = api.list(REQUEST)
  api.close()
  await expect(pending).rejects.toThrow("Cloud Logging cannot be reached")
})
