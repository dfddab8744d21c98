// Sends an output of any size as the JSON that it is, piece by piece where it lies in the object store.

import type { FastifyReply, FastifyRequest } from "fastify"
import type { Output } from "../../core/model/change.ts"
import type { Api } from "../http/ports.ts"

const PIECE_BYTES = 1 << 20

export const sendOutput = async (
  { api, request, reply }: { api: Api; request: FastifyRequest; reply: FastifyReply },
  output: Output,
): Promise<void> => {
  const text = "inline" in output ? Buffer.from(JSON.stringify(output.inline)) : null
  const bytes = "inline" in output ? text!.byteLength : output.bytes
  const headers = { "content-length": String(bytes) }
  const stream = api.streams.open(request, reply, { type: "application/json; charset=utf-8", headers })
  try {
    if (text !== null) await stream.send(text)
    else if ("key" in output) {
      for (let at = 0; at < bytes && !stream.closed.aborted; at += PIECE_BYTES) {
        const piece = await api.objects.getRange(output.key, at, Math.min(bytes, at + PIECE_BYTES))
        if (piece === null) throw new Error(`${output.key} is not there`)
        await stream.send(piece)
      }
    }
    stream.end()
  } catch (error) {
    api.log.warn({ error: String(error) }, "an output was cut short")
    stream.abort()
  }
}
