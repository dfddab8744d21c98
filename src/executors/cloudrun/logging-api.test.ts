import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { expect, onTestFinished, test, vi } from "vitest"
import { ApiError } from "./api-error.ts"
import { CloudLoggingApi, PageTooLarge } from "./logging-api.ts"

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

test("an answer without entries is one, with the time of Google's clock", async () => {
  const api = await serve(200, "{}")
  const page = await api.list(REQUEST)
  expect(page).toMatchObject({ entries: [], next: "" })
  expect(Math.abs((page.at ?? 0) - Date.now())).toBeLessThan(60_000)
})

test("an answer that is too large is not taken into memory", async () => {
  const api = await serve(200, JSON.stringify({ entries: [{ textPayload: "x".repeat(9 << 20) }] }))
  await expect(api.list(REQUEST)).rejects.toThrow(PageTooLarge)
})

test.each([
  ["what Google says", 429, '{"error": {"message": "Quota exceeded"}}', 429, "Quota exceeded"],
  ["what somebody in between says", 502, "<html>Bad Gateway</html>", 502, "status 502: <html>Bad Gateway</html>"],
  ["half an answer", 200, '{"entries": [', null, "Cloud Logging cannot be reached: "],
])("%s is told", async (_, status, body, told, message) => {
  const api = await serve(status, body)
  const error = await api.list(REQUEST).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ApiError)
  expect(error).toMatchObject({ status: told, message: expect.stringContaining(message) as string })
})

test("nobody there, and no credentials, are told with the reason", async () => {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const nobody = new CloudLoggingApi(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  await new Promise((resolve) => server.close(resolve))
  await expect(nobody.list(REQUEST)).rejects.toThrow(/Cloud Logging cannot be reached: .*ECONNREFUSED/)
  vi.stubEnv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/key.json")
  onTestFinished(() => void vi.unstubAllEnvs())
  await expect(new CloudLoggingApi("").list(REQUEST)).rejects.toThrow(
    /Cloud Logging cannot be reached: .*\/no\/such\/key\.json/,
  )
})

test("nothing is waited for once it is closed", async () => {
  const server = createServer(() => {})
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const api = new CloudLoggingApi(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  const asked = api.list(REQUEST)
  api.close()
  await expect(asked).rejects.toThrow("Cloud Logging cannot be reached")
})
