// Asks registries of container images for digests, by the protocol of the OCI (Docker Hub, GitHub, Google, … speak it).

import { createHash } from "node:crypto"

const DOCKER_HUB = "docker.io"
/** An index names the images of all platforms; an old image has a single manifest. */
const MANIFESTS = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
]
const TIMEOUT_MS = 30_000

export interface ImageName {
  registry: string
  repository: string
  tag: string
}

/** Parses `postgres:18`, `minio/minio:latest` or `ghcr.io/owner/name:1`. */
export const parseImage = (image: string): ImageName => {
  const [first = "", ...rest] = image.split("/")
  const hasRegistry = rest.length > 0 && /[.:]|^localhost$/.test(first)
  const [path = "", tag = "latest"] = (hasRegistry ? rest.join("/") : image).split(":")
  if (hasRegistry) return { registry: first, repository: path, tag }
  return { registry: DOCKER_HUB, repository: path.includes("/") ? path : `library/${path}`, tag }
}

/** `addresses`: addresses of registries that differ from `https://REGISTRY`. */
export const resolveDigest = async (image: string, addresses: ReadonlyMap<string, string> = new Map()): Promise<string> => {
  const { registry, repository, tag } = parseImage(image)
  const address = addresses.get(registry) ?? (registry === DOCKER_HUB ? "https://registry-1.docker.io" : `https://${registry}`)
  const url = `${address}/v2/${repository}/manifests/${tag}`
  const accept = { accept: MANIFESTS.join(", ") }
  let response = await request(url, accept)
  if (response.status === 401) {
    const token = await requestToken(response.headers.get("www-authenticate") ?? "")
    response = await request(url, { ...accept, authorization: `Bearer ${token}` })
  }
  if (!response.ok) throw new Error(`${image}: ${url} answered ${response.status}`)
  const digest = `sha256:${createHash("sha256")
    .update(Buffer.from(await response.arrayBuffer()))
    .digest("hex")}`
  const announced = response.headers.get("docker-content-digest")
  if (announced !== null && announced !== digest) {
    throw new Error(`${image}: ${registry} announced ${announced}, but the content has ${digest}`)
  }
  return digest
}

/** Gets a token for anonymous reading, as the challenge says. */
const requestToken = async (challenge: string): Promise<string> => {
  const fields = new Map([...challenge.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name!, value!]))
  const realm = fields.get("realm")
  if (!/^bearer /i.test(challenge) || realm === undefined) throw new Error(`the registry asks for a sign-in: ${challenge}`)
  const query = new URLSearchParams([...fields].filter(([name]) => name === "service" || name === "scope"))
  const response = await request(`${realm}?${query.toString()}`, {})
  if (!response.ok) throw new Error(`${realm} answered ${response.status}`)
  const { token, access_token } = (await response.json()) as { token?: string; access_token?: string }
  return token ?? access_token ?? ""
}

const request = async (url: string, headers: Record<string, string>): Promise<Response> => {
  try {
    return await fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
  } catch (error) {
    const reason = error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error)
    throw new Error(`${new URL(url).origin} cannot be reached: ${reason}`, { cause: error })
  }
}
