import { useRouter } from "@tanstack/react-router"
import { type ReactElement, useEffect, useState } from "react"

/** Delay until a page has set its title, in milliseconds. */
const TITLE_MS = 200

/** Announces the current page to screen readers. */
export const Announcer = (): ReactElement => {
  const router = useRouter()
  const [text, setText] = useState("")
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>
    const end = router.subscribe("onResolved", ({ pathChanged }) => {
      if (!pathChanged) return
      clearTimeout(timer)
      timer = setTimeout(() => setText(document.title), TITLE_MS)
    })
    return () => {
      end()
      clearTimeout(timer)
    }
  }, [router])
  return (
    <div className="hidden" aria-live="polite">
      {text}
    </div>
  )
}
