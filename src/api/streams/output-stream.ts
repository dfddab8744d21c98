// Sends the output of a task as JSON. Reads an output in the object store piece by piece, whatever its size.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { Output } from "../../core/model/change.ts"
import type { Api } from "../http/ports.ts"
import type { Stream } from "../feed/streams.ts"

const PIECE_BYTES = 1 << 20

export const sendOutput = async (
  { api, request, reply }: { api: Api; request: FastifyRequest; reply: FastifyReply },
  output: Output,
): Promise<void> => {
  const stored = "inline" in output ? Buffer.from(JSON.stringify(output.inline)) : output
  const bytes = Buffer.isBuffer(stored) ? stored.byteLength : stored.bytes
  // An error of the first read is a response; later ones abort the stream.
  const first = Buffer.isBuffer(stored) ? stored : await readPiece(api, stored, 0)
  const headers = { "content-length": String(bytes) }
  const stream = api.streams.open(request, reply, { type: "application/json; charset=utf-8", headers })
  try {
    await stream.send(first)
    if (!Buffer.isBuffer(stored)) await sendRest(api, stream, stored)
    stream.end()
  } catch (error) {
    api.log.warn({ error: String(error) }, "aborted the stream of an output")
    stream.abort()
  }
}

interface StoredOutput {
  key: string
  bytes: number
}

const sendRest = async (api: Api, stream: Stream, stored: StoredOutput): Promise<void> => {
  for (let at = PIECE_BYTES; at < stored.bytes && !stream.closed.aborted; at += PIECE_BYTES) {
    await stream.send(await readPiece(api, stored, at))
  }
}

const readPiece = async (api: Api, { key, bytes }: StoredOutput, at: number): Promise<Uint8Array> => {
  const piece = await api.objects.getRange(key, at, Math.min(bytes, at + PIECE_BYTES))
  if (piece === null) throw new Error(`the object ${key} does not exist`)
  return piece
}
