// The address of an SMTP server: `smtp://USER@HOST:PORT` with STARTTLS, or `smtps://USER@HOST:PORT` with TLS from the start. The password
// is a secret, so the address has none.

export interface SmtpSettings {
  host: string
  port: number
  /** null: the server asks for no password. */
  user: string | null
  /** TLS from the start. */
  tls: boolean
}

export const SMTP_HINT =
  "smtp://USER@HOST:PORT or smtps://USER@HOST:PORT, without a password, which is the secret SMTP_PASSWORD"

const PORTS = { "smtp:": 587, "smtps:": 465 } as const

/** Returns null if the value is not valid. */
export const parseSmtp = (value: unknown): SmtpSettings | null => {
  if (typeof value !== "string" || !URL.canParse(value)) return null
  const { protocol, hostname, port, username, password, pathname, search, hash } = new URL(value)
  if (protocol !== "smtp:" && protocol !== "smtps:") return null
  if (hostname === "" || password !== "" || !["", "/"].includes(pathname) || search !== "" || hash !== "") return null
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? PORTS[protocol] : Number(port),
    user: username === "" ? null : decodeURIComponent(username),
    tls: protocol === "smtps:",
  }
}
