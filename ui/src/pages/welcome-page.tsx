// The sign-in page for keys and users. The link that `ork serve` prints leads here only if it was used before.

import { useQuery, useQueryClient } from "@tanstack/react-query"
import { getRouteApi, useRouter } from "@tanstack/react-router"
import { type ReactElement, useEffect, useState, type SyntheticEvent } from "react"
import { addressAfterSignIn } from "../address.ts"
import { calls } from "../api/calls.ts"
import { problemText } from "../api/http.ts"
import { sessionQuery, signInMethodsQuery } from "../api/queries.ts"
import { Button } from "../components/button.tsx"
import { Mark } from "../components/mark.tsx"
import { Field } from "../components/field.tsx"

const route = getRouteApi("/welcome")

const PROBLEMS = {
  link: "This link has been used or is too old. Sign in with a key, or start the server again for a new link.",
  scope: "That key may not look at anything: it is for workers. Sign in with one that has the scope read, trigger or admin.",
  oidc: "The provider did not sign you in, or it took too long. Try again, or sign in with a key.",
  role: "None of your groups has a role here. Ask the administrator, or sign in with a key.",
} as const

/** Signs in with a key, and opens the wanted address. `refused`: why the last try failed. */
const useSignIn = (next: string | undefined) => {
  const router = useRouter()
  const client = useQueryClient()
  const [busy, setBusy] = useState(false)
  const [refused, setRefused] = useState<string | null>(null)
  const signIn = async (key: string): Promise<void> => {
    setBusy(true)
    setRefused(null)
    try {
      await calls.signIn(key)
      client.clear()
      await client.query(sessionQuery)
      router.history.push(`/ui${addressAfterSignIn(next)}`)
    } catch (error) {
      setRefused(problemText(error))
    } finally {
      setBusy(false)
    }
  }
  return { signIn, busy, refused }
}

export const WelcomePage = (): ReactElement => {
  const { next, problem } = route.useSearch()
  const [key, setKey] = useState("")
  const { signIn, busy, refused } = useSignIn(next)
  const { data: methods } = useQuery(signInMethodsQuery)
  useEffect(() => {
    document.title = "Sign in · Ork"
  }, [])

  const submit = (event: SyntheticEvent): void => {
    event.preventDefault()
    void signIn(key.trim())
  }

  return (
    <main className="alone">
      <form className="card welcome" onSubmit={submit}>
        <Mark />
        <h1>Sign in to Ork</h1>
        {problem === undefined ? null : (
          <p className="notice" role="alert">
            {PROBLEMS[problem]}
          </p>
        )}
        <Field
          label="API key"
          problem={refused}
          hint={
            <>
              On the server&apos;s machine, the key is in <code>.ork/admin.key</code> or in <code>ORK_API_KEY</code>. Others are
              made with <code>ork keys</code>.
            </>
          }
        >
          {(names) => (
            <input
              {...names}
              className="input"
              type="password"
              name="key"
              autoComplete="current-password"
              required
              value={key}
              onChange={(event) => setKey(event.target.value)}
            />
          )}
        </Field>
        <Button type="submit" kind="primary" busy={busy} disabled={key.trim() === ""}>
          Sign in
        </Button>
        {methods?.oidc === true ? <a href="/ui/sign-in/oidc">Sign in with your organisation&apos;s account</a> : null}
      </form>
    </main>
  )
}
