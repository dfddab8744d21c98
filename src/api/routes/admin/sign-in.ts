// Sign-in of browsers, by a link that works once, with a key, or through an OpenID provider. All set a session cookie.

import { iso } from "../../../core/model/ports.ts"
import {
  answerQuery,
  newSignInLink,
  session,
  sessionQuery,
  signInBody,
  signInLink,
  signInMethods,
  tokenQuery,
} from "../../../protocol/api/service.ts"
import type { FastifyRequest } from "fastify"
import type { NewAuditEntry } from "../../../store/contract/keys.ts"
import { CALLBACK_PATH, type Oidc, pendingCookie } from "../../auth/oidc.ts"
import { ApiError, notFound, unauthorized } from "../../shared/errors.ts"
import type { Api } from "../../http/ports.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import { route } from "../../http/route.ts"
import { describeRoles } from "../../../core/settings/oidc.ts"
import { OWN_KEY_NAME, scopesFor } from "../../auth/auth.ts"
import { LINK_MS, setCookie } from "../../auth/sign-ins.ts"

/** Page of the web UI that asks for a key. Browsers are redirected to it, because they would show an error as JSON. */
const WELCOME = "/ui/welcome"

/** Returns whether the browser's connection is encrypted, here or at a proxy. */
const isSecure = (request: FastifyRequest, { config }: Api): boolean =>
  request.protocol === "https" || config.url?.startsWith("https:") === true

/** Returns the origin of this server as the browser knows it. */
const originOf = (request: FastifyRequest, { config }: Api): string =>
  config.url === undefined ? `${request.protocol}://${request.host}` : new URL(config.url).origin

const oidcOf = ({ oidc }: Api): Oidc => {
  if (oidc === null) throw notFound("this server has no OpenID provider; sign in with a key")
  return oidc
}

const refusal = (request: FastifyRequest, { code, message }: ApiError): NewAuditEntry => ({
  keyId: null,
  actor: null,
  subject: null,
  address: request.ip,
  action: "session.start",
  target: "user",
  result: code,
  details: message,
  request: null,
})

const isBrowser = (request: FastifyRequest): boolean => /\btext\/html\b/.test(request.headers.accept ?? "")

const toWelcome = (problem: string | null) => ({
  status: 303,
  audit: false as const,
  headers: { location: problem === null ? WELCOME : `${WELCOME}?problem=${problem}`, "referrer-policy": "no-referrer" },
})

export const signInRoutes = [
  route({
    method: "GET",
    path: "/session",
    summary: "Get the key and the scopes of the caller",
    scope: "read",
    concerns: "caller",
    query: sessionQuery,
    responses: { 200: { description: "The caller", schema: session } },
    async handle({ query: { workflow: asked }, caller, api }) {
      const { key, name, user } = caller
      const who = { key_id: key?.id ?? null, user: user === undefined ? null : name, name }
      const workflow = asked === undefined ? undefined : { name: asked, tags: (await api.store.getTags(asked)) ?? [] }
      const scopes = { scopes: scopesFor(caller, workflow), server_scopes: scopesFor(caller, null) }
      return { status: 200, body: { ...who, ...scopes, version: api.config.version } }
    },
  }),
  route({
    method: "POST",
    path: "/sign-in-links",
    summary: "Create a link that signs a browser in with the scopes of the caller's key; it works once, within an hour",
    scope: "read",
    concerns: "caller",
    body: { schema: newSignInLink },
    responses: { 201: { description: "The link", schema: signInLink } },
    audit: "session.link",
    handle({ body, caller, api }) {
      if (caller.via !== "key" || caller.worker !== undefined) {
        throw new ApiError("FORBIDDEN", "only an API key can create a sign-in link; a session and a worker's token cannot")
      }
      describeAction({ target: body.page })
      const token = api.signIns.newToken(caller.key === null ? api.auth.ownSubject : { key: caller.key.hash })
      const path = `/ui/sign-in?${new URLSearchParams({ token, page: body.page }).toString()}`
      return { status: 201, body: { path, expires_at: iso(api.clock.now() + LINK_MS) } }
    },
  }),
  route({
    method: "GET",
    path: "/ui/sign-in",
    summary: "Exchange the token of a sign-in link for a session cookie; the token works once",
    scope: null,
    query: tokenQuery,
    responses: {
      303: {
        description:
          "Signed in; redirects to the web UI. A browser with an invalid link is redirected to a form that asks for a key",
      },
    },
    errors: [401, 429],
    audit: "session.start",
    async handle({ query, request, api }) {
      if (query.token === undefined) return toWelcome(null)
      const subject = api.signIns.redeem(query.token)
      if (subject === null) {
        const problem = unauthorized("this link was used before or has expired; `ork serve` prints a new one when it starts")
        try {
          api.auth.checkProof(request.ip, problem)
        } catch (error) {
          if (error === problem && isBrowser(request)) return toWelcome("link")
          throw error
        }
      }
      describeAction("key" in subject! ? { target: "link", keyId: subject.key } : { target: "link", actor: OWN_KEY_NAME })
      const cookie = setCookie(await api.signIns.start(subject!), isSecure(request, api))
      const location = query.page ?? "/ui/"
      return { status: 303, headers: { location, "set-cookie": cookie, "referrer-policy": "no-referrer" } }
    },
  }),
  route({
    method: "GET",
    path: "/ui/sign-in/methods",
    summary: "List the sign-in methods besides a key",
    scope: null,
    responses: { 200: { description: "The methods", schema: signInMethods } },
    handle({ api }) {
      return { status: 200, body: { oidc: api.oidc !== null } }
    },
  }),
  route({
    method: "GET",
    path: "/ui/sign-in/oidc",
    summary: "Begin to sign a user in through the OpenID provider",
    scope: null,
    responses: { 303: { description: "Redirects to the provider" } },
    errors: [404],
    async handle({ request, api }) {
      const { location, cookie } = await oidcOf(api).begin(originOf(request, api), isSecure(request, api))
      return { status: 303, headers: { location, "set-cookie": cookie, "referrer-policy": "no-referrer" } }
    },
  }),
  route({
    method: "GET",
    path: CALLBACK_PATH,
    summary: "Complete the sign-in of a user with the provider's answer",
    scope: null,
    query: answerQuery,
    responses: { 303: { description: "Signed in; redirects to the web UI, or to the form for a key if the provider refused" } },
    errors: [404],
    audit: "session.start",
    async handle({ request, reply, api }) {
      const secure = isSecure(request, api)
      void reply.header("set-cookie", pendingCookie("", 0, secure))
      try {
        const user = await oidcOf(api).complete(new URL(request.url, originOf(request, api)), request.headers.cookie)
        describeAction({ target: "user", actor: user.name, subject: user.sub, details: describeRoles(user.roles) })
        void reply.header("set-cookie", setCookie(await api.signIns.start({ user }), secure))
        return { status: 303, headers: { location: "/ui/", "referrer-policy": "no-referrer" } }
      } catch (error) {
        if (!(error instanceof ApiError) || error.code === "UNAVAILABLE") throw error
        api.audit.refused(refusal(request, error))
        return toWelcome(error.code === "FORBIDDEN" ? "role" : "oidc")
      }
    },
  }),
  route({
    method: "POST",
    path: "/ui/sign-in",
    summary: "Exchange an API key for a session cookie",
    scope: null,
    body: { schema: signInBody, required: true },
    responses: { 204: { description: "Signed in" } },
    errors: [401, 429],
    audit: "session.start",
    async handle({ body, request, api }) {
      const { subject, caller } = await api.auth.subjectOf(request.ip, body.key)
      describeAction({ target: "key", actor: caller.name, keyId: caller.key?.id ?? null })
      const cookie = setCookie(await api.signIns.start(subject), isSecure(request, api))
      return { status: 204, headers: { "set-cookie": cookie } }
    },
  }),
  route({
    method: "POST",
    path: "/ui/sign-out",
    summary: "End the session of this browser on every server",
    scope: null,
    responses: { 204: { description: "Signed out" } },
    audit: "session.end",
    async handle({ request, api }) {
      const caller = await api.auth.endSession(request)
      const headers = { "set-cookie": setCookie(null, isSecure(request, api)) }
      return { status: 204, headers, ...(caller === null && { audit: false as const }) }
    },
  }),
]
