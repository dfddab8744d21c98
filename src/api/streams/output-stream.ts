// Sends the output of a task as JSON. Reads an output in the object store piece by piece, whatever its size.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { Output } from "../../core/model/change.ts"
import type { Api } from "../http/ports.ts"
import type { Stream } from "./streams.ts"

const PIECE_BYTES = 1 << 20

export const sendOutput = async (
  { api, request, reply }: { api: Api; request: FastifyRequest; reply: FastifyReply },
  output: Output,
): Promise<void> => {
  const stored = "inline" in output ? Buffer.from(JSON.stringify(output.inline)) : output
  const bytes = Buffer.isBuffer(stored) ? stored.byteLength : stored.bytes
  const headers = { "content-length": String(bytes) }
  const stream = api.streams.open(request, reply, { type: "application/json; charset=utf-8", headers })
  try {
    if (Buffer.isBuffer(stored)) await stream.send(stored)
    else await sendObject(api, stream, stored)
    stream.end()
  } catch (error) {
    api.log.warn({ error: String(error) }, "aborted the stream of an output")
    stream.abort()
  }
}

const sendObject = async (api: Api, stream: Stream, { key, bytes }: { key: string; bytes: number }): Promise<void> => {
  for (let at = 0; at < bytes && !stream.closed.aborted; at += PIECE_BYTES) {
    const piece = await api.objects.getRange(key, at, Math.min(bytes, at + PIECE_BYTES))
    if (piece === null) throw new Error(`the object ${key} does not exist`)
    await stream.send(piece)
  }
}
