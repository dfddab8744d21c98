// The report of a run as one HTML page without scripts, fonts or images of other files.

import { graphSvg } from "./graph-svg.ts"
import { escape, type ReportedRun, statusClass } from "./markup.ts"
import { timelineSvg } from "./timeline-svg.ts"
import { taskLabel } from "../progress/event-text.ts"
import { duration } from "../terminal/text.ts"
import { zonedText } from "../terminal/times.ts"
import type { Json } from "../../core/values/json.ts"
import type { Task } from "../../protocol/client/client.ts"

const STYLE = `
:root { color-scheme: light dark; --line: #8885; --text: light-dark(#1b1f24, #e6e6e6); --muted: light-dark(#57606a, #9aa4af);
  --success: light-dark(#1a7f37, #3fb950); --failed: light-dark(#b3261e, #ff7b72); --skipped: light-dark(#6e7781, #8b949e);
  --cancelled: light-dark(#7d4e00, #d29922); --running: light-dark(#0550ae, #58a6ff); }
body { font: 14px/1.5 system-ui, sans-serif; color: var(--text); margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dt { color: var(--muted); } dd { margin: 0; overflow-wrap: anywhere; }
pre { margin: .3rem 0; padding: .5rem; border: 1px solid var(--line); border-radius: 4px; overflow: auto; max-height: 32rem; font-size: 12px; }
details { border-top: 1px solid var(--line); padding: .3rem 0; } summary { cursor: pointer; }
.figure { overflow-x: auto; } svg text { fill: var(--text); font: 12px system-ui, sans-serif; } .muted { color: var(--muted); }
.success { color: var(--success); } .failed { color: var(--failed); } .skipped { color: var(--skipped); }
.cancelled { color: var(--cancelled); } .running { color: var(--running); }
svg .success { fill: var(--success); } svg .failed { fill: var(--failed); } svg .skipped { fill: var(--skipped); }
svg .cancelled { fill: var(--cancelled); } svg .running { fill: var(--running); } svg .edge { stroke: var(--muted); fill: none; }
svg .box { fill: none; stroke-width: 2; } svg .box.success { stroke: var(--success); } svg .box.failed { stroke: var(--failed); }
svg .box.skipped { stroke: var(--skipped); } svg .box.cancelled { stroke: var(--cancelled); } svg .box.running { stroke: var(--running); }
`

export const reportPage = (report: ReportedRun): string => {
  const { run, tasks } = report
  const name = `${run.workflow}#${run.number}`
  const left = report.omitted === 0 ? "" : `<p class="muted">${report.omitted} more instances are left out.</p>`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escape(name)}: ${run.status}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escape(name)} <span class="${statusClass(run.status)}">${run.status}</span></h1>
${facts(report)}
<h2>Graph</h2>
<div class="figure">${graphSvg(report)}</div>
<h2>Timeline</h2>
<div class="figure">${timelineSvg(report)}</div>
<h2>Tasks</h2>
${tasks.map((task) => taskDetails(report, task)).join("\n")}
${left}
</body>
</html>
`
}

const facts = ({ run, zone }: ReportedRun): string => {
  const rows: [string, string | null][] = [
    ["Run", run.id],
    ["Version", String(run.version)],
    ["Started by", [run.trigger, run.created_by].filter((each) => each !== null).join(", ")],
    ["Created", zonedText(run.created_at, zone)],
    ["Started", run.started_at === null ? null : zonedText(run.started_at, zone)],
    ["Finished", run.finished_at === null ? null : zonedText(run.finished_at, zone)],
    ["Logical date", run.logical_date === null ? null : zonedText(run.logical_date, zone)],
    ["Params", Object.keys(run.params).length === 0 ? null : JSON.stringify(run.params)],
    ["Error", run.error],
  ]
  const shown = rows.flatMap(([term, value]) => (value === null ? [] : [`<dt>${term}</dt><dd>${escape(value)}</dd>`]))
  return `<dl>${shown.join("")}</dl>`
}

/** Failed tasks are open. */
const taskDetails = ({ logs, now }: ReportedRun, task: Task): string => {
  const { name, path, label, status, started_at, finished_at } = task
  const end = finished_at === null ? now : Date.parse(finished_at)
  const took = started_at === null ? "" : ` ${duration(end - Date.parse(started_at))}`
  const attempts = task.attempt > 1 ? `, attempt ${task.attempt}` : ""
  const log = logs.get(task.id)
  const parts = [
    task.error === null ? "" : `<p class="failed">${escape(task.error)}</p>`,
    block(
      "Command",
      task.command === null ? null : typeof task.command === "string" ? task.command : JSON.stringify(task.command),
    ),
    block("Input", jsonText(task.input as Json)),
    block("Output", jsonText(task.output as Json)),
    block("Log", log === undefined || log.text === "" ? null : log.text, log?.cut === true ? " (its end)" : ""),
  ]
  return `<details${status === "failed" ? " open" : ""}><summary>${escape(taskLabel(name, path, label))} <span class="${statusClass(status)}">${status}</span><span class="muted">${took}${attempts}</span></summary>${parts.join("")}</details>`
}

const jsonText = (value: Json | undefined): string | null =>
  value === undefined || value === null ? null : JSON.stringify(value, null, 2)

const block = (title: string, text: string | null, note = ""): string =>
  text === null ? "" : `<div class="muted">${title}${note}</div><pre>${escape(text)}</pre>`
