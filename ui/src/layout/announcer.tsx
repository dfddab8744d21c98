import { useRouter } from "@tanstack/react-router"
import { type ReactElement, useEffect, useState } from "react"

/** A page sets its title a moment after it is gone to. */
const TITLE_MS = 200

/** Tells those who do not see the page which one they have come to. */
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
