// Sends the output of a task as JSON, or an object. Reads an object piece by piece, whatever its size.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { Output } from "../../core/model/change.ts"
import type { Api } from "../http/ports.ts"
import type { Stream, StreamHead } from "../feed/streams.ts"

const PIECE_BYTES = 1 << 20

interface Exchange {
  api: Api
  request: FastifyRequest
  reply: FastifyReply
}

export const sendOutput = async (exchange: Exchange, output: Output): Promise<void> => {
  const stored = "inline" in output ? Buffer.from(JSON.stringify(output.inline)) : output
  await send(exchange, stored, { type: "application/json; charset=utf-8" })
}

/** Sends the first bytes of an object, whose size is at least `bytes`. */
export const sendObject = (exchange: Exchange, stored: StoredObject, head: StreamHead): Promise<void> =>
  send(exchange, stored, head)

const send = async ({ api, request, reply }: Exchange, stored: Buffer | StoredObject, head: StreamHead): Promise<void> => {
  const bytes = Buffer.isBuffer(stored) ? stored.byteLength : stored.bytes
  // An error of the first read is a response; later ones abort the stream.
  const first = Buffer.isBuffer(stored) ? stored : await readPiece(api, stored, 0)
  const stream = api.streams.open(request, reply, { ...head, headers: { ...head.headers, "content-length": String(bytes) } })
  try {
    await stream.send(first)
    if (!Buffer.isBuffer(stored)) await sendRest(api, stream, stored)
    stream.end()
  } catch (error) {
    api.log.warn({ error: String(error) }, "aborted the stream of an object")
    stream.abort()
  }
}

interface StoredObject {
  key: string
  bytes: number
}

const sendRest = async (api: Api, stream: Stream, stored: StoredObject): Promise<void> => {
  for (let at = PIECE_BYTES; at < stored.bytes && !stream.closed.aborted; at += PIECE_BYTES) {
    await stream.send(await readPiece(api, stored, at))
  }
}

const readPiece = async (api: Api, { key, bytes }: StoredObject, at: number): Promise<Uint8Array> => {
  const piece = await api.objects.getRange(key, at, Math.min(bytes, at + PIECE_BYTES))
  if (piece === null) throw new Error(`the object ${key} does not exist`)
  return piece
}
