import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { type AddressInfo, connect } from "node:net"
import { once } from "node:events"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, onTestFinished, test, vi } from "vitest"
import { parseSecretUris } from "../core/settings/secret-uris.ts"
import { AwsSecrets } from "./aws.ts"
import { GcpSecrets } from "./gcp.ts"
import { type SecretManager, Secrets, type SecretsOptions } from "./secrets.ts"

const setup = (given: Partial<SecretsOptions> = {}) => {
  const time = { now: 0 }
  const none = (): never => {
    throw new Error("no manager must be loaded")
  }
  const secrets = new Secrets({ env: {}, folder: "", uris: {}, manager: none, clock: { monotonic: () => time.now }, ...given })
  return { secrets, time }
}

const temporaryFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-secrets-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

test("a variable is found synchronously", () => {
  const { secrets } = setup({ env: { ORK_SECRET_TOKEN: "t0ken", OTHER: "no" } })
  expect(secrets.find("TOKEN")).toBe("t0ken")
  expect(secrets.find("OTHER")).toBeNull()
  expect(secrets.find("../TOKEN")).toBeNull()
})

test("a file is read without its last line end, and again after it changed", async () => {
  // As Kubernetes mounts them: NAME -> ..data/NAME, ..data -> a folder that is swapped.
  const folder = temporaryFolder()
  const write = (version: string, value: string): void => {
    mkdirSync(join(folder, version))
    writeFileSync(join(folder, version, "TOKEN"), value)
    symlinkSync(version, join(folder, "..data.tmp"))
    renameSync(join(folder, "..data.tmp"), join(folder, "..data"))
  }
  write("..v1", "one\n")
  symlinkSync(join("..data", "TOKEN"), join(folder, "TOKEN"))
  const { secrets } = setup({ folder })
  expect(await secrets.find("TOKEN")).toBe("one")
  write("..v2", "two\nlines\n")
  expect(await secrets.find("TOKEN")).toBe("two\nlines")
  expect(await secrets.find("MISSING")).toBeNull()
  expect(secrets.find("..data")).toBeNull()
})

test("a file that cannot be read is an error, not a missing secret", async () => {
  const folder = temporaryFolder()
  mkdirSync(join(folder, "TOKEN"))
  const { secrets } = setup({ folder })
  await expect(secrets.find("TOKEN")).rejects.toThrow(/the secret TOKEN could not be read from the folder .*EISDIR/)
})

test("variables take precedence over files, and files over managers", async () => {
  const folder = temporaryFolder()
  for (const name of ["A", "B"]) writeFileSync(join(folder, name), "file")
  const manager: SecretManager = { read: () => Promise.resolve("manager") }
  const uris = parseSecretUris({ A: "aws://r/a", B: "aws://r/b", C: "aws://r/c" })!
  const { secrets } = setup({ env: { ORK_SECRET_A: "variable" }, folder, uris, manager: () => Promise.resolve(manager) })
  expect([await secrets.find("A"), await secrets.find("B"), await secrets.find("C")]).toEqual(["variable", "file", "manager"])
})

describe("a value of a manager", () => {
  test("is cached for a minute; a failure is not", async () => {
    const read = vi.fn<SecretManager["read"]>().mockRejectedValueOnce(new Error("AccessDenied")).mockResolvedValue("value")
    const uris = parseSecretUris({ A: "aws://eu-1/some/id" })!
    const { secrets, time } = setup({ uris, manager: () => Promise.resolve({ read }) })
    await expect(secrets.find("A")).rejects.toThrow("the secret A could not be read from aws://eu-1/some/id: AccessDenied")
    expect(await Promise.all([secrets.find("A"), secrets.find("A")])).toEqual(["value", "value"])
    time.now = 59_999
    await secrets.find("A")
    expect(read).toHaveBeenCalledTimes(2)
    time.now = 60_000
    await secrets.find("A")
    expect(read).toHaveBeenCalledTimes(3)
  })

  test.each([
    ["#password", '{"password":"pw","port":5432}', "pw"],
    ["#port", '{"password":"pw","port":5432}', "5432"],
  ])("is reduced to its key by %s", async (key, stored, value) => {
    const manager: SecretManager = { read: () => Promise.resolve(stored) }
    const { secrets } = setup({ uris: parseSecretUris({ A: `aws://r/id${key}` })!, manager: () => Promise.resolve(manager) })
    expect(await secrets.find("A")).toBe(value)
  })

  test.each([
    ["hunter2", /not JSON/],
    ['{"hunter2":1}', /no key password/],
    ['{"password":["hunter2"]}', /is not a text/],
  ])("without the key causes an error that does not contain the value", async (stored, why) => {
    const manager: SecretManager = { read: () => Promise.resolve(stored) }
    const { secrets } = setup({ uris: parseSecretUris({ A: "aws://r/id#password" })!, manager: () => Promise.resolve(manager) })
    const failed = secrets.find("A")
    await expect(failed).rejects.toThrow(why)
    await expect(failed).rejects.not.toThrow(/hunter2/)
  })
})

test.each(["aws://x", "gcp://projects/p", "vault://x/y", "gcp://projects/p/secrets/s/versions/1/2", ""])(
  "%j is not an address of a secret",
  (uri) => {
    expect(parseSecretUris({ A: uri })).toBeNull()
  },
)

// -- protocols of the managers -----------------------------------------------------------------------------------------------

interface Call {
  path: string
  headers: { [name: string]: string | string[] | undefined }
  body: string
}

const serve = async (respond: (call: Call) => { status: number; body: object }) => {
  const calls: Call[] = []
  const server = createServer((request, response) => {
    let body = ""
    request.setEncoding("utf8")
    request.on("data", (part: string) => (body += part))
    request.on("end", () => {
      const call = { path: request.url ?? "", headers: request.headers, body }
      calls.push(call)
      const { status, body: content } = respond(call)
      response.writeHead(status, { "content-type": "application/x-amz-json-1.1" }).end(JSON.stringify(content))
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port: (server.address() as AddressInfo).port, calls }
}

describe("AWS", () => {
  const awsEnvironment = (port: number): void => {
    vi.stubEnv("AWS_ENDPOINT_URL_SECRETS_MANAGER", `http://127.0.0.1:${port}`)
    vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "example")
    onTestFinished(() => void vi.unstubAllEnvs())
  }

  test("receives a request for the secret by its id, signed for its region", async () => {
    const { port, calls } = await serve(({ body }) => ({ status: 200, body: { ARN: "arn", SecretString: `value of ${body}` } }))
    awsEnvironment(port)
    const value = await new AwsSecrets().read({ kind: "aws", region: "eu-central-1", id: "prod/db", key: null })
    expect(value).toBe('value of {"SecretId":"prod/db"}')
    expect(calls[0]?.headers["x-amz-target"]).toBe("secretsmanager.GetSecretValue")
    expect(calls[0]?.headers["authorization"]).toContain("/eu-central-1/secretsmanager/aws4_request")
  })

  test("reports why it rejects a request", async () => {
    const body = { __type: "ResourceNotFoundException", Message: "Secrets Manager can't find the specified secret." }
    const { port } = await serve(() => ({ status: 400, body }))
    awsEnvironment(port)
    const failed = new AwsSecrets().read({ kind: "aws", region: "eu-central-1", id: "gone", key: null })
    await expect(failed).rejects.toThrow("can't find the specified secret")
  })
})

describe("Google", () => {
  const clientOf = async (port: number): Promise<GcpSecrets> => {
    const { GoogleAuth, OAuth2Client } = await import("google-auth-library")
    const authClient = new OAuth2Client()
    authClient.setCredentials({ access_token: "a token", expiry_date: Date.now() + 3_600_000 })
    const auth = new GoogleAuth({ authClient })
    return new GcpSecrets({ auth, endpoint: `http://127.0.0.1:${port}`, retryDelayMs: 1 })
  }

  test("receives a request for the version by its name, with a token", async () => {
    const data = Buffer.from("the value").toString("base64")
    const { port, calls } = await serve(() => ({ status: 200, body: { name: "n", payload: { data } } }))
    const client = await clientOf(port)
    expect(await client.read({ kind: "gcp", name: "projects/p/secrets/s/versions/latest", key: null })).toBe("the value")
    expect(calls[0]?.path).toBe("/v1/projects/p/secrets/s/versions/latest:access")
    expect(calls[0]?.headers["authorization"]).toBe("Bearer a token")
  })

  test("is asked again while it is overloaded", async () => {
    const data = Buffer.from("v").toString("base64")
    const replies = [429, 503, 200].map((status) => ({ status, body: status === 200 ? { payload: { data } } : {} }))
    const { port, calls } = await serve(() => replies.shift()!)
    const client = await clientOf(port)
    expect(await client.read({ kind: "gcp", name: "projects/p/secrets/s/versions/1", key: null })).toBe("v")
    expect(calls).toHaveLength(3)
  })

  test("is asked through the proxy of the environment", async () => {
    const data = Buffer.from("v").toString("base64")
    const { port } = await serve(() => ({ status: 200, body: { payload: { data } } }))
    const tunnels: string[] = []
    const proxy = createServer()
    proxy.on("connect", (request, socket) => {
      tunnels.push(request.url!)
      socket.write("HTTP/1.1 200 OK\r\n\r\n")
      socket.pipe(connect(port, "127.0.0.1")).pipe(socket)
    })
    proxy.listen(0, "127.0.0.1")
    await once(proxy, "listening")
    onTestFinished(() => {
      vi.unstubAllEnvs()
      proxy.closeAllConnections()
      proxy.close()
    })
    vi.stubEnv("HTTP_PROXY", `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`)
    vi.stubEnv("NO_PROXY", "")
    const auth = { getRequestHeaders: () => Promise.resolve(new Headers()) }
    const client = new GcpSecrets({ auth, endpoint: "http://secrets.example" })
    expect(await client.read({ kind: "gcp", name: "projects/p/secrets/s/versions/1", key: null })).toBe("v")
    expect(tunnels).toEqual(["secrets.example:80"])
  })

  test("can have an empty value", async () => {
    const { port } = await serve(() => ({ status: 200, body: { payload: {} } }))
    const client = await clientOf(port)
    expect(await client.read({ kind: "gcp", name: "projects/p/secrets/s/versions/1", key: null })).toBe("")
  })

  test("reports why it rejects a request", async () => {
    const { port } = await serve(() => ({
      status: 403,
      body: { error: { code: 403, status: "PERMISSION_DENIED", message: "Permission denied on secret" } },
    }))
    const client = await clientOf(port)
    const failed = client.read({ kind: "gcp", name: "projects/p/secrets/s/versions/1", key: null })
    await expect(failed).rejects.toThrow("Permission denied on secret")
  })

  test("reports missing credentials, without an unhandled rejection", async () => {
    vi.stubEnv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/key.json")
    onTestFinished(() => void vi.unstubAllEnvs())
    // An unhandled rejection would fail this file.
    const failed = new GcpSecrets().read({ kind: "gcp", name: "projects/p/secrets/s/versions/1", key: null })
    await expect(failed).rejects.toThrow("/no/such/key.json")
  })
})
