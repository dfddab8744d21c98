// A bare prototype of the `advance` loop on node:sqlite (Node 24): the rate that the design can reach without a product around it.
// usage: node sqlite.mjs [finished tasks already in the table] [tasks at once]
import { DatabaseSync } from "node:sqlite"
import { rmSync } from "node:fs"
const HIST = +(process.argv[2] ?? 0),
  SLOTS = +(process.argv[3] ?? 256)
for (const s of ["", "-wal", "-shm"]) rmSync("prototype.db" + s, { force: true })
const db = new DatabaseSync("prototype.db")
db.exec(`PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-65536; PRAGMA wal_autocheckpoint=4000;
CREATE TABLE runs(id INTEGER PRIMARY KEY, status TEXT NOT NULL, open_tasks INTEGER NOT NULL, failed INTEGER NOT NULL DEFAULT 0, created_at INTEGER, finished_at INTEGER);
CREATE TABLE tasks(id INTEGER PRIMARY KEY, run_id INTEGER NOT NULL, idx INTEGER NOT NULL, status TEXT NOT NULL, left INTEGER NOT NULL, priority INTEGER NOT NULL DEFAULT 5, available_at INTEGER NOT NULL DEFAULT 0, attempt INTEGER NOT NULL DEFAULT 0, attempt_id TEXT, dispatched_at INTEGER, started_at INTEGER, finished_at INTEGER, output TEXT, error TEXT);
CREATE INDEX ready ON tasks(priority DESC, id) WHERE status='pending' AND left=0;
CREATE INDEX live ON tasks(run_id, idx) WHERE status IN ('pending','dispatched');
CREATE INDEX hist ON tasks(run_id, idx);`)
const RUNS = 100,
  LAYERS = 10,
  WIDTH = 10,
  N = RUNS * LAYERS * WIDTH
if (HIST) {
  db.exec("BEGIN")
  db.prepare(
    `WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<?) INSERT INTO tasks(id,run_id,idx,status,left,attempt,attempt_id,finished_at) SELECT i, i/100, i%100, 'success',0,1,'x'||i,1 FROM c`,
  ).run(HIST)
  db.exec("COMMIT")
}
const children = []
for (let l = 0; l < LAYERS; l++)
  for (let w = 0; w < WIDTH; w++)
    children.push(l < LAYERS - 1 ? Array.from({ length: 3 }, (_, k) => (l + 1) * WIDTH + ((w + k) % WIDTH)) : [])
const indeg = children.map(() => 0)
children.forEach((c) => c.forEach((x) => indeg[x]++))
const settle = db.prepare(
  `UPDATE tasks SET status=j.value->>'s', finished_at=?2, started_at=j.value->>'t', output=j.value->>'o' FROM json_each(?1) j WHERE tasks.id=j.value->>'id' AND tasks.attempt_id=j.value->>'a' AND tasks.status='dispatched' RETURNING tasks.id, tasks.run_id`,
)
const release = db.prepare(
  `UPDATE tasks SET left=left-j.n FROM (SELECT value->>'r' r, value->>'i' i, value->>'n' n FROM json_each(?1)) j WHERE tasks.run_id=j.r AND tasks.idx=j.i AND tasks.status IN ('pending','dispatched')`,
)
const close = db.prepare(
  `UPDATE runs SET open_tasks=open_tasks-j.n, status=CASE WHEN open_tasks=j.n THEN 'success' ELSE status END, finished_at=CASE WHEN open_tasks=j.n THEN ?2 END FROM (SELECT value->>'r' r, value->>'n' n FROM json_each(?1)) j WHERE runs.id=j.r RETURNING id,status`,
)
const claim = db.prepare(
  `UPDATE tasks SET status='dispatched', attempt=attempt+1, attempt_id=hex(randomblob(8)), dispatched_at=?2 WHERE id IN (SELECT id FROM tasks WHERE status='pending' AND left=0 ORDER BY priority DESC, id LIMIT ?1) RETURNING id, run_id, idx, attempt, attempt_id`,
)
const insRun = db.prepare(`INSERT INTO runs(id,status,open_tasks,created_at) SELECT value,'running',?2,?3 FROM json_each(?1)`)
const insTasks = db.prepare(
  `INSERT INTO tasks(run_id,idx,status,left) SELECT r.value, t.key, 'pending', t.value FROM json_each(?1) r, json_each(?2) t`,
)
let tx = 0
const t0 = performance.now()
const ids = Array.from({ length: RUNS }, (_, i) => (i + 1e6) | 0)
db.exec("BEGIN IMMEDIATE")
insRun.run(JSON.stringify(ids), children.length, Date.now())
insTasks.run(JSON.stringify(ids), JSON.stringify(indeg))
db.exec("COMMIT")
tx++
const t1 = performance.now()
let done = 0,
  running = 0,
  inbox = [],
  closed = 0
const dispatch = (c) => {
  running++
  queueMicrotask(() => {
    running--
    inbox.push({ id: c.id, r: c.run_id, i: c.idx, a: c.attempt_id, s: "success", t: Date.now(), o: '{"ok":true}' })
  })
}
while (closed < RUNS) {
  const fin = inbox
  inbox = []
  db.exec("BEGIN IMMEDIATE")
  tx++
  if (fin.length) {
    const ok = settle.all(JSON.stringify(fin), Date.now())
    done += ok.length
    const edges = new Map(),
      runs = new Map()
    for (const f of fin) {
      runs.set(f.r, (runs.get(f.r) ?? 0) + 1)
      for (const c of children[f.i]) {
        const k = f.r * 1000 + c
        edges.set(k, (edges.get(k) ?? 0) + 1)
      }
    }
    if (edges.size) release.run(JSON.stringify([...edges].map(([k, n]) => ({ r: Math.floor(k / 1000), i: k % 1000, n }))))
    closed += close
      .all(JSON.stringify([...runs].map(([r, n]) => ({ r, n }))), Date.now())
      .filter((x) => x.status === "success").length
  }
  const claims = claim.all(SLOTS - running, Date.now())
  db.exec("COMMIT")
  for (const c of claims) dispatch(c)
  await null
}
const t2 = performance.now()
console.log({
  HIST,
  SLOTS,
  N,
  done,
  tx,
  insert_ms: (t1 - t0) | 0,
  drain_per_s: ((N / (t2 - t1)) * 1000) | 0,
  e2e_per_s: ((N / (t2 - t0)) * 1000) | 0,
  rss_mb: process.memoryUsage().rss >> 20,
})
// chain latency
{
  const C = 1000
  const id = 5e6
  db.exec("BEGIN IMMEDIATE")
  insRun.run(JSON.stringify([id]), C, Date.now())
  insTasks.run(JSON.stringify([id]), JSON.stringify([0, ...Array(C - 1).fill(1)]))
  db.exec("COMMIT")
  const s = performance.now()
  let fin = null,
    n = 0
  while (n < C) {
    db.exec("BEGIN IMMEDIATE")
    if (fin) {
      settle.all(JSON.stringify([fin]), Date.now())
      n++
      if (n < C) release.run(JSON.stringify([{ r: id, i: n, n: 1 }]))
      close.all(JSON.stringify([{ r: id, n: 1 }]), Date.now())
    }
    const c = claim.all(1, Date.now())[0]
    db.exec("COMMIT")
    if (c) fin = { id: c.id, r: c.run_id, i: c.idx, a: c.attempt_id, s: "success", t: Date.now(), o: null }
    await null
  }
  console.log("chain ms/step", ((performance.now() - s) / C).toFixed(3))
}
