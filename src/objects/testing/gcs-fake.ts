// A test server with the JSON API of Google Cloud Storage as its discovery document defines it: objects.insert (media and resumable),
// get (metadata and media with ranges), list with pages, delete. Strict: it rejects unknown paths, parameters and invalid headers, so
// that an incorrect client fails.

import { createHash, randomUUID } from "node:crypto"
import { once } from "node:events"
import { createServer, type IncomingMessage, ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { buffer } from "node:stream/consumers"
import { messageOf } from "../../core/values/error-message.ts"

const COMMON = ["alt", "fields", "prettyPrint", "key", "quotaUser", "userProject", "projection", "$.xgafv"]
const PRECONDITIONS = ["ifGenerationMatch", "ifGenerationNotMatch", "ifMetagenerationMatch", "ifMetagenerationNotMatch"]
const PARAMETERS = {
  list: "delimiter endOffset includeFoldersAsPrefixes includeTrailingDelimiter matchGlob filter maxResults pageToken prefix softDeleted startOffset versions".split(
    " ",
  ),
  get: ["generation", "softDeleted", "restoreToken", ...PRECONDITIONS],
  delete: ["generation", ...PRECONDITIONS],
  insert: ["name", "uploadType", "upload_id", "contentEncoding", "kmsKeyName", "predefinedAcl", ...PRECONDITIONS],
}

const CHUNK_MULTIPLE = 256 * 1024

class HttpError extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

interface Upload {
  name: string
  data: Buffer
}

const byBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b))

export class FakeGcs {
  readonly bucket: string
  readonly objects = new Map<string, Buffer>()
  readonly #uploads = new Map<string, Upload>()
  /** Names of the objects of finished uploads, which respond again as they did at their end. */
  readonly #finished = new Map<string, string>()
  readonly #server = createServer((request, response) => void this.#handle(request, response))
  /** The next `count` requests fail with this status; with 0 their connections break. `late`: after they had their effect. */
  failNext: { count: number; status: number; late?: boolean } = { count: 0, status: 503 }
  /** If set, every request fails with it. */
  failAll: { status: number; message: string } | null = null
  requests = 0
  /** Maximum number of entries in a list; a server may return fewer than requested. */
  maxPageSize = 1000
  /** If set, only so many bytes of the next chunk of an upload are received. */
  truncateNextChunk: number | null = null

  constructor(bucket: string) {
    this.bucket = bucket
  }

  async start(): Promise<string> {
    this.#server.listen(0, "127.0.0.1")
    await once(this.#server, "listening")
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, "close")
  }

  get openUploads(): number {
    return this.#uploads.size
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests += 1
    try {
      const body = await buffer(request)
      if (this.failAll !== null) throw new HttpError(this.failAll.status, this.failAll.message)
      const url = new URL(request.url!, "http://fake")
      if (this.failNext.count > 0) {
        const { status, late = false } = this.failNext
        this.failNext.count -= 1
        if (late) this.#route(request, url, body, new ServerResponse(request))
        if (status === 0) return void request.socket.destroy()
        throw new HttpError(status, "We encountered an internal error. Please try again.")
      }
      this.#route(request, url, body, response)
    } catch (error) {
      const status = error instanceof HttpError ? error.status : 500
      const message = messageOf(error)
      const reason = status === 404 ? "notFound" : status === 416 ? "requestedRangeNotSatisfiable" : "invalid"
      json(response, status, { error: { code: status, message, errors: [{ message, domain: "global", reason }] } })
    }
  }

  #route(request: IncomingMessage, url: URL, body: Buffer, response: ServerResponse): void {
    const upload = /^\/upload\/storage\/v1\/b\/([^/]+)\/o$/.exec(url.pathname)
    const plain = /^\/storage\/v1\/b\/([^/]+)\/o(?:\/([^/]+))?$/.exec(url.pathname)
    const bucket = upload?.[1] ?? plain?.[1]
    if (bucket === undefined) throw new HttpError(404, `Not Found: ${url.pathname}`)
    if (bucket !== this.bucket) throw new HttpError(404, "The specified bucket does not exist.")
    const method = request.method!
    if (upload !== null) return this.#insert(request, url, body, response)
    const name = plain![2] === undefined ? null : decodeURIComponent(plain![2])
    if (name === null) {
      if (method !== "GET") throw new HttpError(405, "Method Not Allowed")
      return this.#list(url, response)
    }
    if (method === "DELETE") return this.#delete(name, url, response)
    if (method !== "GET") throw new HttpError(405, "Method Not Allowed")
    this.#get(name, request, url, response)
  }

  #list(url: URL, response: ServerResponse): void {
    const query = checkParameters(url, PARAMETERS.list)
    const max = Number(query.get("maxResults") ?? this.maxPageSize)
    if (!Number.isInteger(max) || max < 1) throw new HttpError(400, "Invalid value for maxResults")
    const prefix = query.get("prefix") ?? ""
    const start = query.get("startOffset") ?? ""
    const token = query.get("pageToken")
    const after = token === null ? null : Buffer.from(token, "base64url").toString()
    const names = [...this.objects.keys()]
      .filter((name) => name.startsWith(prefix) && byBytes(name, start) >= 0 && (after === null || byBytes(name, after) > 0))
      .toSorted(byBytes)
    const page = names.slice(0, Math.min(max, this.maxPageSize))
    const more = page.length < names.length
    json(response, 200, {
      kind: "storage#objects",
      ...(page.length > 0 && { items: page.map((name) => this.#resource(name)) }),
      ...(more && { nextPageToken: Buffer.from(page.at(-1)!).toString("base64url") }),
    })
  }

  #get(name: string, request: IncomingMessage, url: URL, response: ServerResponse): void {
    const query = checkParameters(url, PARAMETERS.get)
    const data = this.#object(name)
    if (query.get("alt") !== "media") return json(response, 200, this.#resource(name))
    const range = request.headers.range
    const headers = { "x-goog-hash": `md5=${md5(data)}`, "x-goog-stored-content-encoding": "identity" }
    if (range === undefined) return send(response, 200, data, headers)
    const found = /^bytes=(\d+)-(\d+)$/.exec(range)
    if (found === null) throw new HttpError(400, `Invalid range: ${range}`)
    const [start, end] = [Number(found[1]), Math.min(Number(found[2]) + 1, data.length)]
    if (start >= data.length) throw new HttpError(416, "The requested range cannot be satisfied.")
    send(response, 206, data.subarray(start, end), { ...headers, "content-range": `bytes ${start}-${end - 1}/${data.length}` })
  }

  #delete(name: string, url: URL, response: ServerResponse): void {
    checkParameters(url, PARAMETERS.delete)
    this.#object(name)
    this.objects.delete(name)
    response.writeHead(204).end()
  }

  #insert(request: IncomingMessage, url: URL, body: Buffer, response: ServerResponse): void {
    const query = checkParameters(url, PARAMETERS.insert)
    const uploadId = query.get("upload_id")
    if (uploadId !== null) return this.#chunk(uploadId, request, body, response)
    if (request.method !== "POST") throw new HttpError(405, "Method Not Allowed")
    switch (query.get("uploadType")) {
      case "media": {
        const name = query.get("name")
        if (name === null || name === "") throw new HttpError(400, "Required")
        return this.#finish(name, body, response)
      }
      case "resumable": {
        const name =
          query.get("name") ?? (body.length > 0 ? (JSON.parse(body.toString()) as { name?: string }).name : undefined)
        if (name === undefined || name === null) throw new HttpError(400, "Required")
        const id = randomUUID()
        this.#uploads.set(id, { name, data: Buffer.alloc(0) })
        const location = `http://${request.headers.host}${url.pathname}?uploadType=resumable&upload_id=${id}`
        response.writeHead(200, { location, "content-length": 0 }).end()
        return
      }
      default:
        throw new HttpError(400, `Invalid upload type: ${query.get("uploadType")}`)
    }
  }

  #chunk(id: string, request: IncomingMessage, body: Buffer, response: ServerResponse): void {
    const upload = this.#uploads.get(id)
    const finished = this.#finished.get(id)
    if (finished !== undefined) return json(response, 200, this.#resource(finished))
    if (upload === undefined) throw new HttpError(404, "No such upload")
    if (request.method === "DELETE") {
      this.#uploads.delete(id)
      response.writeHead(499).end()
      return
    }
    const range = request.headers["content-range"] ?? ""
    const found = /^bytes (?:(\d+)-(\d+|\*)|\*)\/(\d+|\*)$/.exec(range)
    if (request.method !== "PUT" || found === null) throw new HttpError(400, `Invalid content-range: ${range}`)
    const total = found[3] === "*" ? null : Number(found[3])
    if (found[1] !== undefined) {
      const known = upload.data.length - Number(found[1])
      if (known < 0) throw new HttpError(400, "A chunk is missing")
      if (found[2] !== "*" && Number(found[2]) - Number(found[1]) + 1 !== body.length)
        throw new HttpError(400, "Wrong length of a chunk")
      const received = this.truncateNextChunk === null ? body : body.subarray(0, this.truncateNextChunk)
      // Bytes that were received before are ignored.
      upload.data = Buffer.concat([upload.data, received.subarray(known)])
      this.truncateNextChunk = null
    }
    if (total !== null && upload.data.length === total) {
      this.#uploads.delete(id)
      this.#finished.set(id, upload.name)
      return this.#finish(upload.name, upload.data, response)
    }
    if (body.length % CHUNK_MULTIPLE !== 0) throw new HttpError(400, "Chunks must be multiples of 256 KiB")
    const last = upload.data.length - 1
    response.writeHead(308, { "content-length": 0, ...(last >= 0 && { range: `bytes=0-${last}` }) }).end()
  }

  #finish(name: string, data: Buffer, response: ServerResponse): void {
    this.objects.set(name, data)
    json(response, 200, this.#resource(name))
  }

  #object(name: string): Buffer {
    const data = this.objects.get(name)
    if (data === undefined) throw new HttpError(404, `No such object: ${this.bucket}/${name}`)
    return data
  }

  /** int64 fields are strings, as in the discovery document. */
  #resource(name: string): object {
    const data = this.#object(name)
    const updated = "2026-01-31T10:00:00.000Z"
    const fixed = { kind: "storage#object", bucket: this.bucket, generation: "1", updated }
    return { ...fixed, name, size: String(data.length), md5Hash: md5(data) }
  }
}

const md5 = (data: Buffer): string => createHash("md5").update(data).digest("base64")

const checkParameters = (url: URL, known: readonly string[]): URLSearchParams => {
  for (const name of url.searchParams.keys()) {
    if (!known.includes(name) && !COMMON.includes(name)) throw new HttpError(400, `Unknown name "${name}"`)
  }
  return url.searchParams
}

const send = (response: ServerResponse, status: number, data: Buffer, headers: Record<string, string>): void =>
  void response.writeHead(status, { ...headers, "content-length": data.length }).end(data)

const json = (response: ServerResponse, status: number, value: object): void =>
  send(response, status, Buffer.from(JSON.stringify(value)), { "content-type": "application/json; charset=UTF-8" })
