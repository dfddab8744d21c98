// A real OpenID provider (oidc-provider) on a free port, whose form accepts any name without a password.

import { execFileSync } from "node:child_process"
import { chmodSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import type { RequestListener } from "node:http"
import { createServer } from "node:https"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { CustomFetch } from "openid-client"
import { Agent } from "undici"

/** The part of oidc-provider that the tests use; the package has no types. */
interface ProviderModule {
  default: new (issuer: string, configuration: object) => { callback(): RequestListener }
}

/** A variable, so that the compiler looks for no types. */
const PACKAGE: string = "oidc-provider"

export interface OpenIdProvider {
  issuer: string
  clientSecret: string
  /** Trusts the certificate of the provider. */
  fetch: CustomFetch
  /** Groups by name of the user. */
  groups: { [user: string]: string[] }
  /** Signs a user in, from the first redirect to the provider's answer. Returns the address of the answer. */
  signIn(location: string, user: string): Promise<string>
  /** File with the provider's certificate, which every user may read. */
  certificate: string
  close(): void
}

export const startOpenIdProvider = async (callbackUrl: string): Promise<OpenIdProvider> => {
  const imported: unknown = await import(PACKAGE)
  const { default: Provider } = imported as ProviderModule
  const { folder, cert, key } = createCertificate()
  const dispatcher = new Agent({ connect: { ca: cert } })
  const trusting: CustomFetch = (url, init) => {
    const options: object = { ...init, dispatcher }
    return fetch(url, options)
  }
  const groups: OpenIdProvider["groups"] = {}
  const clientSecret = "client-secret-of-tests"
  const server = createServer({ cert, key })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const close = (): void => {
    server.closeAllConnections()
    server.close()
    rmSync(folder, { recursive: true })
  }
  const issuer = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider = new Provider(issuer, {
    clients: [{ client_id: "ork", client_secret: clientSecret, redirect_uris: [callbackUrl] }],
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    pkce: { required: () => true },
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, name: `${id} Example`, groups: groups[id] ?? [] }),
    }),
  })
  server.on("request", provider.callback())
  const browser = (url: string, init: object) => trusting(url, init as Parameters<CustomFetch>[1])
  return {
    issuer,
    clientSecret,
    fetch: trusting,
    groups,
    signIn: (location, user) => signIn(browser, location, user),
    certificate: join(folder, "cert.pem"),
    close,
  }
}

const createCertificate = (): { folder: string; cert: string; key: string } => {
  const folder = mkdtempSync(join(tmpdir(), "ork-tls-"))
  chmodSync(folder, 0o755)
  const names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
  const files = ["-keyout", "key.pem", "-out", "cert.pem"]
  execFileSync("openssl", ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", ...names, ...files], {
    cwd: folder,
    stdio: "ignore",
  })
  const read = (file: string): string => readFileSync(join(folder, file), "utf8")
  return { folder, cert: read("cert.pem"), key: read("key.pem") }
}

/** Follows the redirects of the provider like a browser, and fills in its forms. */
const signIn = async (
  browser: (url: string, init: object) => Promise<Response>,
  location: string,
  user: string,
): Promise<string> => {
  const cookies = new Map<string, string>()
  const visit = async (url: string, form?: Record<string, string>): Promise<string> => {
    const response = await browser(url, {
      redirect: "manual",
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
      ...(form !== undefined && { method: "POST", body: new URLSearchParams(form) }),
    })
    for (const header of response.headers.getSetCookie()) {
      const [name = "", value = ""] = header.split(";")[0]!.split("=", 2)
      cookies.set(name, value)
    }
    const next = response.headers.get("location")
    if (next === null) throw new Error(`${url} responded ${response.status}: ${(await response.text()).slice(0, 500)}`)
    return new URL(next, url).href
  }
  let at = await visit(location)
  for (const form of [{ prompt: "login", login: user, password: "x" }, { prompt: "consent" }]) {
    if (!new URL(at).pathname.startsWith("/interaction/")) break
    at = await visit(await visit(at, form))
  }
  return at
}
