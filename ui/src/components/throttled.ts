import { useEffect, useRef, useState } from "react"

/** Returns the value, updated at most once per interval; the last value always arrives. */
export const useThrottled = <T>(value: T, ms: number): T => {
  const [shown, setShown] = useState(value)
  const latest = useRef(value)
  const timer = useRef<ReturnType<typeof setTimeout> | null>(null)
  useEffect(() => {
    latest.current = value
    timer.current ??= setTimeout(() => {
      timer.current = null
      setShown(latest.current)
    }, ms)
  }, [value, ms])
  useEffect(
    () => () => {
      if (timer.current !== null) clearTimeout(timer.current)
      timer.current = null
    },
    [],
  )
  return ms === 0 ? value : shown
}
