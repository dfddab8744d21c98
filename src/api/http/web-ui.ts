// Serves the web page: the files of its build below /ui/, each known by name before it is asked for, so that no path can lead
// elsewhere. What is no file is a place inside the page, and gets index.html. `/` leads to it.

import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify"
import { createReadStream, existsSync, readdirSync, statSync } from "node:fs"
import { extname, join } from "node:path"
import { ApiError, notFound } from "./errors.ts"

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

/** Best first. */
const ENCODINGS = [
  ["br", ".br"],
  ["gzip", ".gz"],
] as const

const INDEX = "index.html"
const FOR_EVER = "public, max-age=31536000, immutable"

/** Sizes of the files of a build by their path in it, the compressed twins too. */
const filesOf = (folder: string): Map<string, number> => {
  const files = new Map<string, number>()
  if (!existsSync(folder)) return files
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    files.set(path.slice(folder.length + 1).replaceAll("\\", "/"), statSync(path).size)
  }
  return files
}

export const installWebUi = (app: FastifyInstance, folder: string): void => {
  let known = new Map<string, number>()
  let builtAt: number | null = null
  /** A page that was built anew under a running server has other names. */
  const look = (): void => {
    const at = statSync(join(folder, INDEX), { throwIfNoEntry: false })?.mtimeMs ?? 0
    if (at === builtAt) return
    known = filesOf(folder)
    builtAt = at
  }

  const send = (request: FastifyRequest, reply: FastifyReply, name: string): FastifyReply => {
    const accepted = String(request.headers["accept-encoding"] ?? "")
    const [encoding, suffix] = ENCODINGS.find(([each, ending]) => accepts(accepted, each) && known.has(name + ending)) ?? []
    const path = name + (suffix ?? "")
    reply.headers(HEADERS).type(TYPES[extname(name)] ?? "application/octet-stream")
    reply.header("cache-control", name.startsWith("assets/") ? FOR_EVER : "no-cache").header("vary", "accept-encoding")
    if (encoding !== undefined) reply.header("content-encoding", encoding)
    reply.header("content-length", known.get(path)!)
    return request.method === "HEAD" ? reply.send() : reply.send(createReadStream(join(folder, path)))
  }

  const answer = (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const name = (request.params as { "*"?: string })["*"] ?? ""
    if (!name.startsWith("assets/") || !known.has(name)) look()
    if (known.has(name) && !/\.(?:br|gz)$/.test(name)) return send(request, reply, name)
    if (name.startsWith("assets/")) throw notFound(`there is no /ui/${name.slice(0, 200)}; load the page anew`)
    if (!known.has(INDEX)) throw new ApiError("NOT_FOUND", "the web page is not built; `npm run build` makes it")
    return send(request, reply, INDEX)
  }
  for (const path of ["/ui", "/ui/*"]) app.get(path, { exposeHeadRoute: true }, answer)
  app.get("/", { exposeHeadRoute: true }, (_request, reply) => reply.redirect("/ui/", 302))
}

const accepts = (header: string, encoding: string): boolean =>
  header.split(",").some((part) => {
    const [name, ...options] = part.split(";").map((piece) => piece.trim())
    return name === encoding && !options.some((option) => /^q=0(?:\.0*)?$/.test(option))
  })
