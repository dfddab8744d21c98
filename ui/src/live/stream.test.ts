import { expect, test } from "vitest"
import type { OrkEvent } from "../api/types.ts"
import { type LiveSource, LiveStream, type LiveEnvironment } from "./stream.ts"

type Listener = (message: { data: string; lastEventId: string }) => void

class FakeSource implements LiveSource {
  onopen: (() => void) | null = null
  onerror: (() => void) | null = null
  readyState = 0
  closed = false
  readonly url: string
  readonly #listeners = new Map<string, Listener>()

  constructor(url: string) {
    this.url = url
  }

  addEventListener(type: string, listener: Listener): void {
    this.#listeners.set(type, listener)
  }

  close(): void {
    this.closed = true
  }

  send(type: string, id: string, data: object = {}): void {
    this.#listeners.get(type)?.({ data: JSON.stringify(data), lastEventId: id })
  }

  giveUp(): void {
    this.readyState = 2
    this.onerror?.()
  }
}

const setup = () => {
  const sources: FakeSource[] = []
  const frames: (() => void)[] = []
  const timers: { ms: number; run: () => void }[] = []
  const environment: LiveEnvironment = {
    connect: (url) => {
      const source = new FakeSource(url)
      sources.push(source)
      return source
    },
    frame: (run) => {
      frames.push(run)
      return () => undefined
    },
    after: (ms, run) => {
      const timer = { ms, run }
      timers.push(timer)
      return () => void timers.splice(timers.indexOf(timer), 1)
    },
  }
  const stream = new LiveStream(environment, "/events")
  const batches: (readonly OrkEvent[])[] = []
  let gaps = 0
  stream.onBatch((events) => batches.push(events))
  stream.onGap(() => (gaps += 1))
  const fire = (ms: number): void => {
    const timer = timers.find((each) => each.ms === ms)
    timers.splice(timers.indexOf(timer!), 1)
    timer!.run()
  }
  return { stream, sources, frames, timers, batches, gaps: () => gaps, fire }
}

test("events of one frame are delivered together", () => {
  const { stream, sources, frames, batches } = setup()
  stream.start()
  sources[0]!.onopen!()
  sources[0]!.send("run", "1.0", { run_id: "a" })
  sources[0]!.send("task", "1.1", { run_id: "a" })
  expect([batches.length, frames.length]).toEqual([0, 1])
  frames[0]!()
  expect(batches.map((batch) => batch.length)).toEqual([2])
})

test("a closed connection is reopened after the last event with growing delays", () => {
  const { stream, sources, fire, gaps } = setup()
  stream.start()
  sources[0]!.onopen!()
  sources[0]!.send("run", "7.3", {})
  sources[0]!.giveUp()
  fire(1000)
  expect(sources[1]!.url).toBe("/events?after=7.3")
  sources[1]!.giveUp()
  fire(2000)
  sources[2]!.onopen!()
  expect([sources.length, stream.state, gaps()]).toEqual([3, "open", 0])
})

test("a lost connection is reported after a delay, a short interruption is not", () => {
  const { stream, sources, timers, fire } = setup()
  stream.start()
  sources[0]!.onopen!()
  sources[0]!.onerror!()
  expect(stream.state).toBe("open")
  sources[0]!.onopen!()
  expect(timers).toEqual([])
  sources[0]!.onerror!()
  fire(1500)
  expect(stream.state).toBe("lost")
  sources[0]!.onopen!()
  expect(stream.state).toBe("open")
})

test("a hidden tab closes the connection and later continues after the last event", () => {
  const { stream, sources, gaps } = setup()
  stream.start()
  sources[0]!.onopen!()
  sources[0]!.send("run", "2.0", {})
  stream.disconnect()
  expect([sources[0]!.closed, stream.state]).toEqual([true, "disconnected"])
  stream.start()
  expect(sources[1]!.url).toBe("/events?after=2.0")
  sources[1]!.onopen!()
  expect(gaps()).toBe(0)
})

test("returning without a last event is reported as a gap", () => {
  const { stream, sources, gaps } = setup()
  stream.start()
  sources[0]!.onopen!()
  stream.disconnect()
  stream.start()
  sources[1]!.onopen!()
  expect(gaps()).toBe(1)
})

test("events that the server no longer has are reported as a gap", () => {
  const { stream, sources, gaps } = setup()
  stream.start()
  sources[0]!.send("gap", "")
  expect(gaps()).toBe(1)
})
