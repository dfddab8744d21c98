// Endpoints of buckets that workflows name. Requests to an endpoint carry credentials of Ork, so only the administrator decides which
// ones get them: the endpoint of the object store, and hosts of `http_allow`.

import { isIP } from "node:net"
import type { AllowedHost } from "../../core/settings/http-allow.ts"
import { parseObjectAddress } from "../../core/settings/object-address.ts"
import { AllowList } from "../http/addresses.ts"
import { BrokenCondition } from "./broken-condition.ts"

export interface EndpointSettings {
  /** Address of the object store of Ork. */
  objectStore: string
  httpAllow: readonly AllowedHost[]
}

/** Throws a BrokenCondition if the endpoint of a bucket is not allowed. */
export const checkEndpoint = (address: string, { objectStore, httpAllow }: EndpointSettings): void => {
  const endpoint = endpointOf(address)
  if (endpoint === null || endpoint === endpointOf(objectStore) || isAllowed(new URL(endpoint), httpAllow)) return
  const { host } = new URL(endpoint)
  throw new BrokenCondition(
    `the endpoint ${endpoint} would get requests with the credentials of Ork; if it may, add "${host}" to http_allow in ork.yaml (ORK_HTTP_ALLOW)`,
  )
}

const isAllowed = ({ hostname, port, protocol }: URL, httpAllow: readonly AllowedHost[]): boolean => {
  const allow = new AllowList(httpAllow)
  const host = hostname.replace(/^\[(.+)\]$/, "$1").replace(/\.$/, "")
  const at = Number(port) || (protocol === "https:" ? 443 : 80)
  return allow.allowsHost(host, at) || (isIP(host) !== 0 && allow.allowsAddress(host, at))
}

const endpointOf = (address: string): string | null => {
  const parsed = parseObjectAddress(address)
  return parsed?.kind === "s3" && parsed.endpoint !== null ? new URL(parsed.endpoint).origin : null
}
