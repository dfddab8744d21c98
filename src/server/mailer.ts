// Sends e-mails through the SMTP server of the configuration. A password is sent over TLS only, except to this machine.

import type { Transporter } from "nodemailer"
import type { Mail, Mailer } from "../engine/services/notifier.ts"
import type { SecretSource } from "../core/model/ports.ts"
import { explainMissing } from "../core/settings/optional-packages.ts"
import type { SmtpSettings } from "../core/settings/smtp.ts"

const TIMEOUT_MS = 20_000
/** Name of the secret with the password: ORK_SECRET_SMTP_PASSWORD. */
const PASSWORD_SECRET = "SMTP_PASSWORD"
const LOOPBACK = /^(?:localhost|127\.\d+\.\d+\.\d+|::1)$/

export class SmtpMailer implements Mailer {
  readonly #settings: SmtpSettings
  readonly #from: string
  readonly #secret: SecretSource

  /** `from`: the sender; empty: the default. */
  constructor(settings: SmtpSettings, from: string, secret: SecretSource) {
    this.#settings = settings
    this.#from = from === "" ? defaultSender(settings) : from
    this.#secret = secret
  }

  async send({ to, subject, text, id }: Mail): Promise<void> {
    const transport = await this.#connect()
    try {
      await transport.sendMail({
        from: this.#from,
        to,
        subject,
        text,
        messageId: `<${id.replaceAll(":", ".")}@ork>`,
        headers: { "Auto-Submitted": "auto-generated", "X-Ork-Delivery": id },
      })
    } finally {
      transport.close()
    }
  }

  /** Connects and signs in, without sending a message. Rejects with what is wrong. */
  async verify(): Promise<void> {
    const transport = await this.#connect()
    try {
      await transport.verify()
    } finally {
      transport.close()
    }
  }

  /** Reads the password for each message, so that a new one takes effect at once. */
  async #connect(): Promise<Transporter> {
    const { host, port, user, tls } = this.#settings
    const { createTransport } = await import("nodemailer").catch(explainMissing("the setting smtp"))
    const pass = user === null ? null : await this.#secret(PASSWORD_SECRET)
    if (user !== null && pass === null)
      throw new Error(`the secret ${PASSWORD_SECRET} with the password of ${user} is not set (ORK_SECRET_${PASSWORD_SECRET})`)
    const isLocal = LOOPBACK.test(host)
    return createTransport({
      host,
      port,
      secure: tls,
      ignoreTLS: !tls && isLocal,
      requireTLS: !tls && user !== null && !isLocal,
      connectionTimeout: TIMEOUT_MS,
      greetingTimeout: TIMEOUT_MS,
      socketTimeout: TIMEOUT_MS,
      disableFileAccess: true,
      disableUrlAccess: true,
      ...(user !== null && pass !== null && { auth: { user, pass } }),
    })
  }
}

const defaultSender = ({ user, host }: SmtpSettings): string => (user?.includes("@") === true ? user : `ork@${host}`)
