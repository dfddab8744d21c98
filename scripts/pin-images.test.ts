import { createHash } from "node:crypto"
import { cpSync, mkdirSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { temporaryFolder } from "../test/support/ork.ts"
import { IMAGE_FILES, unpinnedImages } from "./images.ts"
import { pinImages } from "./pin-images.ts"
import { parseImage, resolveDigest } from "./registry.ts"

const digestOf = (text: string): string => `sha256:${createHash("sha256").update(text).digest("hex")}`

/** A registry that gives anonymous tokens, as Docker Hub does. The manifest of an image is its path. */
const startRegistry = async ({ digest = digestOf }: { digest?(path: string): string } = {}): Promise<string> => {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url!, "http://registry")
    if (pathname === "/token") return response.end(JSON.stringify({ token: `for ${searchParams.get("scope")}` }))
    const [, repository] = /^\/v2\/(.+)\/manifests\/[^/]+$/.exec(pathname) ?? []
    const scope = `repository:${repository}:pull`
    if (request.headers.authorization !== `Bearer for ${scope}`) {
      const challenge = `Bearer realm="${address}/token",service="registry",scope="${scope}"`
      return response.writeHead(401, { "www-authenticate": challenge }).end()
    }
    if (repository === "library/gone") return response.writeHead(404).end()
    return response.writeHead(200, { "docker-content-digest": digest(pathname) }).end(pathname)
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => void server.close())
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return address
}

const copyOfDeploy = (): string => {
  const root = temporaryFolder()
  mkdirSync(join(root, "deploy"))
  for (const file of IMAGE_FILES) cpSync(file, join(root, file))
  return root
}

const contentOf = (root: string): string => IMAGE_FILES.map((file) => readFileSync(join(root, file), "utf8")).join("\n")

test("names of images are resolved as Docker resolves them", () => {
  expect(parseImage("postgres:18")).toEqual({ registry: "docker.io", repository: "library/postgres", tag: "18" })
  expect(parseImage("minio/minio")).toEqual({ registry: "docker.io", repository: "minio/minio", tag: "latest" })
  expect(parseImage("localhost:5000/a/b:1")).toEqual({ registry: "localhost:5000", repository: "a/b", tag: "1" })
})

test("every image of deploy/ is pinned to the digest of its tag, and again after the tag has moved", async () => {
  const root = copyOfDeploy()
  const addresses = new Map([["docker.io", await startRegistry()]])
  const pinned = await pinImages(root, addresses)
  expect(unpinnedImages(contentOf(root))).toEqual([])
  expect(pinned).toContain(`postgres:18@${digestOf("/v2/library/postgres/manifests/18")}`)
  expect(contentOf(root)).toContain(`=node:24-slim@${digestOf("/v2/library/node/manifests/24-slim")}\n`)
  const before = contentOf(root)
  await pinImages(root, addresses)
  expect(contentOf(root)).toBe(before)
})

test("a registry that does not answer, has no such image or sends other content changes nothing", async () => {
  const root = copyOfDeploy()
  const before = contentOf(root)
  await expect(pinImages(root, new Map([["docker.io", "http://127.0.0.1:9"]]))).rejects.toThrow("cannot be reached")
  const lying = await startRegistry({ digest: () => digestOf("other") })
  await expect(pinImages(root, new Map([["docker.io", lying]]))).rejects.toThrow("but the content has sha256:")
  expect(contentOf(root)).toBe(before)
  const registry = await startRegistry()
  await expect(resolveDigest("gone:1", new Map([["docker.io", registry]]))).rejects.toThrow("gone:1: ")
})
