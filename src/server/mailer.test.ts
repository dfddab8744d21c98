import type { AddressInfo } from "node:net"
import { SMTPServer, type SMTPServerOptions } from "smtp-server"
import { expect, onTestFinished, test } from "vitest"
import { SmtpMailer } from "./mailer.ts"

interface Received {
  from: string
  to: string[]
  user: string | null
  text: string
}

/** Starts an SMTP server on this machine. */
const receive = async (options: SMTPServerOptions = {}): Promise<{ port: number; received: Received[] }> => {
  const received: Received[] = []
  const server = new SMTPServer({
    authOptional: true,
    allowInsecureAuth: true,
    disabledCommands: ["STARTTLS"],
    onAuth: ({ username, password }, _session, done) =>
      password === "pass" ? done(null, { user: username ?? "" }) : done(new Error("the password is wrong")),
    onData: (stream, { envelope, user }, done) => {
      const from = envelope.mailFrom === false ? "" : envelope.mailFrom.address
      const mail = { from, to: envelope.rcptTo.map(({ address }) => address), user: (user as string) ?? null, text: "" }
      received.push(mail)
      stream.setEncoding("utf8")
      stream.on("data", (chunk: string) => void (mail.text += chunk))
      stream.on("end", () => done())
    },
    ...options,
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())))
  return { port: (server.server.address() as AddressInfo).port, received }
}

const MAIL = { to: ["a@x.test", "b@x.test"], subject: "Grüße\r\nBcc: c@x.test", text: "It failed.\n", id: "run:failure:7" }

const mailer = (port: number, user: string | null, password: string | null = null, from = ""): SmtpMailer =>
  new SmtpMailer({ host: "127.0.0.1", port, user, tls: false }, from, (name) => (name === "SMTP_PASSWORD" ? password : null))

test("a mail reaches its recipients, and a subject cannot add headers or recipients", async () => {
  const { port, received } = await receive()
  await mailer(port, null, null, "Ork <ork@x.test>").send(MAIL)
  expect(received).toMatchObject([{ from: "ork@x.test", to: ["a@x.test", "b@x.test"], user: null }])
  const { text } = received[0]!
  expect(text).toContain("Message-ID: <run.failure.7@ork>")
  expect(text).toContain("It failed.")
  expect(text).not.toMatch(/^Bcc:/m)
})

test("a check connects and signs in, and says what is wrong", async () => {
  const { port, received } = await receive({ authOptional: false })
  await mailer(port, "ork@x.test", "pass").verify()
  await expect(mailer(port, "ork@x.test", "wrong").verify()).rejects.toThrow("the password is wrong")
  await expect(mailer(port, "ork@x.test").verify()).rejects.toThrow("the secret SMTP_PASSWORD")
  expect(received).toEqual([])
})

test("the user signs in with the secret SMTP_PASSWORD, and is the sender by default", async () => {
  const { port, received } = await receive({ authOptional: false })
  await mailer(port, "ork@x.test", "pass").send(MAIL)
  expect(received).toMatchObject([{ from: "ork@x.test", user: "ork@x.test" }])
  await expect(mailer(port, "ork@x.test", "wrong").send(MAIL)).rejects.toThrow("the password is wrong")
  await expect(mailer(port, "ork@x.test").send(MAIL)).rejects.toThrow(
    "the secret SMTP_PASSWORD with the password of ork@x.test is not set",
  )
})

test("a server that rejects the mail or cannot be reached is an error with its reason", async () => {
  const { port } = await receive({ onRcptTo: (_address, _session, done) => done(new Error("no such mailbox")) })
  await expect(mailer(port, null).send(MAIL)).rejects.toThrow("no such mailbox")
  await expect(mailer(1, null).send(MAIL)).rejects.toThrow("ECONNREFUSED")
})
