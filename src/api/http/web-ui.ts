// Serves the files of the built web UI below /ui/. Only files that a scan of the build folder found are served, so that no path can
// leave it. Every other path below /ui/ is a location inside the web UI and gets index.html. `/` redirects to /ui/.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify"
import { createReadStream, existsSync, readdirSync, statSync } from "node:fs"
import { extname, join } from "node:path"
import { pipeline } from "node:stream"
import { createGzip } from "node:zlib"
import { notFound } from "../shared/errors.ts"

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "worker-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'self'",
].join("; ")

const HEADERS = {
  "content-security-policy": POLICY,
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".json": "application/json; charset=utf-8",
  ".woff2": "font/woff2",
}

/** Content encodings with the suffix of their files, best first. */
const ENCODINGS = [
  ["br", ".br"],
  ["gzip", ".gz"],
] as const

/** Smaller files gain nothing. */
const LEAST_COMPRESSED_BYTES = 1024

const INDEX = "index.html"
const IMMUTABLE = "public, max-age=31536000, immutable"

/** Files of a build with their sizes, by path relative to the build folder; includes the compressed copies. */
class BuildFiles {
  readonly #folder: string
  #sizes = new Map<string, number>()
  #builtAt: number | null = null

  constructor(folder: string) {
    this.#folder = folder
  }

  has(name: string): boolean {
    return this.#sizes.has(name)
  }

  size(name: string): number {
    return this.#sizes.get(name)!
  }

  path(name: string): string {
    return join(this.#folder, name)
  }

  /** Scans the folder again if the web UI was rebuilt while the server runs: its files then have other names. */
  refresh(): void {
    const builtAt = statSync(this.path(INDEX), { throwIfNoEntry: false })?.mtimeMs ?? 0
    if (builtAt === this.#builtAt) return
    this.#builtAt = builtAt
    this.#sizes = new Map()
    if (!existsSync(this.#folder)) return
    for (const entry of readdirSync(this.#folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const path = join(entry.parentPath, entry.name)
      this.#sizes.set(path.slice(this.#folder.length + 1).replaceAll("\\", "/"), statSync(path).size)
    }
  }
}

export const installWebUi = (app: FastifyInstance, folder: string): void => {
  const files = new BuildFiles(folder)
  const handler = (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const name = (request.params as { "*"?: string })["*"] ?? ""
    const isAsset = name.startsWith("assets/")
    if (!isAsset || !files.has(name)) files.refresh()
    if (files.has(name) && !/\.(?:br|gz)$/.test(name)) return sendFile(request, reply, files, name)
    if (isAsset) throw notFound(`there is no file /ui/${name.slice(0, 200)}; reload the web UI`)
    if (!files.has(INDEX)) throw notFound("the web UI is not built; run `npm run build`")
    return sendFile(request, reply, files, INDEX)
  }
  for (const path of ["/ui", "/ui/*"]) app.get(path, { exposeHeadRoute: true }, handler)
  app.get("/", { exposeHeadRoute: true }, (_request, reply) => reply.redirect("/ui/", 302))
}

const sendFile = (request: FastifyRequest, reply: FastifyReply, files: BuildFiles, name: string): FastifyReply => {
  const accepted = String(request.headers["accept-encoding"] ?? "")
  const [encoding, suffix = ""] = ENCODINGS.find(([each, ending]) => accepts(accepted, each) && files.has(name + ending)) ?? []
  const file = name + suffix
  // A build has compressed copies of its files, the installed package has none.
  const compressed = encoding === undefined && isCompressible(files, name) && accepts(accepted, "gzip")
  reply.headers(HEADERS).type(TYPES[extname(name)] ?? "application/octet-stream")
  reply.header("cache-control", name.startsWith("assets/") ? IMMUTABLE : "no-cache").header("vary", "accept-encoding")
  const content = compressed ? "gzip" : encoding
  if (content !== undefined) reply.header("content-encoding", content)
  if (!compressed) reply.header("content-length", files.size(file))
  if (request.method === "HEAD") return reply.send()
  const stream = createReadStream(files.path(file))
  return reply.send(compressed ? pipeline(stream, createGzip(), () => {}) : stream)
}

const isCompressible = (files: BuildFiles, name: string): boolean =>
  extname(name) !== ".woff2" && files.size(name) >= LEAST_COMPRESSED_BYTES

/** Returns whether an Accept-Encoding header lists the encoding with a weight above 0. */
const accepts = (header: string, encoding: string): boolean =>
  header.split(",").some((part) => {
    const [name, ...options] = part.split(";").map((piece) => piece.trim())
    return name === encoding && !options.some((option) => /^q=0(?:\.0*)?$/.test(option))
  })
