// Finds the address of the container engine: DOCKER_HOST as the tools of Docker and Podman read it, else the first default
// socket that exists.

import { readFileSync } from "node:fs"
import { join } from "node:path"

export interface EngineAddress {
  /** Address for messages. */
  shown: string
  socketPath?: string
  host?: string
  port?: number
  /** Certificates for TLS; omitted for plain HTTP. */
  tls?: { ca: Buffer; cert: Buffer; key: Buffer }
}

export type Environ = { [name: string]: string | undefined }

const DEFAULT_SOCKET = "/var/run/docker.sock"
const PLAIN_PORT = 2375

const defaultSockets = (env: Environ): string[] => [
  DEFAULT_SOCKET,
  ...(env["XDG_RUNTIME_DIR"] ? [join(env["XDG_RUNTIME_DIR"], "podman/podman.sock")] : []),
  "/run/podman/podman.sock",
]

/** Throws when DOCKER_HOST is invalid. */
export const engineAddress = (env: Environ, exists: (path: string) => boolean): EngineAddress => {
  const given = env["DOCKER_HOST"]
  if (!given) {
    const socketPath = defaultSockets(env).find(exists) ?? DEFAULT_SOCKET
    return { shown: `unix://${socketPath}`, socketPath }
  }
  if (given.startsWith("unix://")) return { shown: given, socketPath: given.slice("unix://".length) }
  const url = /^(?:tcp|https?):\/\//.test(given) ? URL.parse(given.replace(/^tcp:/, "http:")) : null
  if (url === null || url.hostname === "") {
    throw new Error(`DOCKER_HOST ${given} is invalid: use unix:///path/to/socket or tcp://host:port`)
  }
  const secure = given.startsWith("https:") || Boolean(env["DOCKER_TLS_VERIFY"])
  const port = url.port === "" ? (secure ? PLAIN_PORT + 1 : PLAIN_PORT) : Number(url.port)
  const host = url.hostname.replace(/^\[|\]$/g, "")
  return { shown: given, host, port, ...(secure && { tls: certificates(env) }) }
}

const certificates = (env: Environ): NonNullable<EngineAddress["tls"]> => {
  const folder = env["DOCKER_CERT_PATH"] || join(env["HOME"] ?? "/", ".docker")
  const read = (name: string): Buffer => {
    try {
      return readFileSync(join(folder, name))
    } catch (error) {
      throw new Error(
        `the engine at DOCKER_HOST requires TLS, but ${join(folder, name)} cannot be read; set DOCKER_CERT_PATH`,
        {
          cause: error,
        },
      )
    }
  }
  return { ca: read("ca.pem"), cert: read("cert.pem"), key: read("key.pem") }
}
