// A bare prototype of the `advance` loop on Postgres over one connection; see sqlite.mjs.
// usage: DATABASE_URL=postgresql://… node postgres.mjs [tasks at once]   (needs pg)
import pg from "pg"
const SLOTS = +(process.argv[2] ?? 256)
const c = new pg.Client(process.env.DATABASE_URL)
await c.connect()
await c.query(`DROP SCHEMA IF EXISTS proto CASCADE; CREATE SCHEMA proto; SET search_path=proto;
CREATE TABLE runs(id bigint PRIMARY KEY, status text NOT NULL, open_tasks int NOT NULL, created_at timestamptz DEFAULT now(), finished_at timestamptz) WITH (fillfactor=70);
CREATE TABLE tasks(id bigserial PRIMARY KEY, run_id bigint NOT NULL, idx int NOT NULL, status text NOT NULL, left_ int NOT NULL, priority int NOT NULL DEFAULT 5, available_at timestamptz, attempt int NOT NULL DEFAULT 0, attempt_id uuid, dispatched_at timestamptz, started_at timestamptz, finished_at timestamptz, output text, error text) WITH (fillfactor=60, autovacuum_vacuum_scale_factor=0.02);
CREATE INDEX ready ON tasks(priority DESC, id) WHERE status='pending' AND left_=0;
CREATE UNIQUE INDEX hist ON tasks(run_id, idx);`)
const RUNS = 100,
  LAYERS = 10,
  WIDTH = 10,
  N = RUNS * LAYERS * WIDTH
const children = []
for (let l = 0; l < LAYERS; l++)
  for (let w = 0; w < WIDTH; w++)
    children.push(l < LAYERS - 1 ? Array.from({ length: 3 }, (_, k) => (l + 1) * WIDTH + ((w + k) % WIDTH)) : [])
const indeg = children.map(() => 0)
children.forEach((x) => x.forEach((y) => indeg[y]++))
const q = (name, text, values) => c.query({ name, text, values })
let tx = 0
const t0 = performance.now()
const ids = Array.from({ length: RUNS }, (_, i) => i + 1)
await q(
  "insr",
  `WITH r AS (INSERT INTO runs(id,status,open_tasks) SELECT unnest($1::bigint[]), 'running', $2 RETURNING id) INSERT INTO tasks(run_id,idx,status,left_) SELECT r.id, t.o-1, 'pending', t.l FROM r, unnest($3::int[]) WITH ORDINALITY t(l,o)`,
  [ids, children.length, indeg],
)
tx++
const t1 = performance.now()
let inbox = [],
  closed = 0,
  done = 0
const ADV = `WITH fin AS (SELECT * FROM unnest($1::bigint[],$2::uuid[],$3::text[]) f(id,a,o)),
settled AS (UPDATE tasks t SET status='success', finished_at=now(), started_at=now(), output=f.o FROM fin f WHERE t.id=f.id AND t.attempt_id=f.a AND t.status='dispatched' RETURNING t.run_id),
rel AS (UPDATE tasks t SET left_=t.left_-e.n FROM unnest($4::bigint[],$5::int[],$6::int[]) e(r,i,n) WHERE t.run_id=e.r AND t.idx=e.i RETURNING 1),
runs_ AS (UPDATE runs r SET open_tasks=r.open_tasks-s.n, status=CASE WHEN r.open_tasks=s.n THEN 'success' ELSE r.status END, finished_at=CASE WHEN r.open_tasks=s.n THEN now() END FROM (SELECT run_id, count(*)::int n FROM settled GROUP BY 1) s WHERE r.id=s.run_id RETURNING r.status)
SELECT count(*) FILTER (WHERE status='success')::int closed, (SELECT count(*)::int FROM settled) n FROM runs_`
const CLAIM = `WITH c AS (SELECT id FROM tasks WHERE status='pending' AND left_=0 ORDER BY priority DESC, id LIMIT $1 FOR UPDATE SKIP LOCKED) UPDATE tasks t SET status='dispatched', attempt=attempt+1, attempt_id=gen_random_uuid(), dispatched_at=now() FROM c WHERE t.id=c.id RETURNING t.id, t.run_id, t.idx, t.attempt_id`
let claimed = 0
while (closed < RUNS) {
  const fin = inbox
  inbox = []
  const ps = [c.query("BEGIN")]
  let adv
  if (fin.length) {
    const e = new Map()
    for (const f of fin)
      for (const ch of children[f.idx]) {
        const k = +f.run_id * 1000 + ch
        e.set(k, (e.get(k) ?? 0) + 1)
      }
    const ks = [...e.keys()]
    adv = q("adv", ADV, [
      fin.map((f) => f.id),
      fin.map((f) => f.attempt_id),
      fin.map(() => '{"ok":true}'),
      ks.map((k) => Math.floor(k / 1000)),
      ks.map((k) => k % 1000),
      [...e.values()],
    ])
    ps.push(adv)
  }
  const cl = q("claim", CLAIM, [SLOTS])
  ps.push(cl, c.query("COMMIT"))
  tx++
  await Promise.all(ps)
  if (adv) {
    const r = (await adv).rows[0]
    closed += r.closed
    done += r.n
  }
  inbox.push(...(await cl).rows)
}
const t2 = performance.now()
console.log({ SLOTS, N, done, tx, e2e_per_s: ((N / (t2 - t0)) * 1000) | 0, drain_per_s: ((N / (t2 - t1)) * 1000) | 0 })
{
  const C = 500
  await q(
    "insr",
    `WITH r AS (INSERT INTO runs(id,status,open_tasks) SELECT unnest($1::bigint[]), 'running', $2 RETURNING id) INSERT INTO tasks(run_id,idx,status,left_) SELECT r.id, t.o-1, 'pending', t.l FROM r, unnest($3::int[]) WITH ORDINALITY t(l,o)`,
    [[9999], C, [0, ...Array(C - 1).fill(1)]],
  ).catch((e) => console.log(e.message))
  const s = performance.now()
  let fin = null,
    n = 0
  while (n < C) {
    const ps = [c.query("BEGIN")]
    if (fin) {
      n++
      ps.push(q("adv", ADV, [[fin.id], [fin.attempt_id], [""], n < C ? [9999] : [], n < C ? [n] : [], n < C ? [1] : []]))
    }
    const cl = q("claim", CLAIM, [1])
    ps.push(cl, c.query("COMMIT"))
    await Promise.all(ps)
    fin = (await cl).rows[0] ?? fin
  }
  console.log("chain ms/step", ((performance.now() - s) / C).toFixed(2))
}
await c.query("DROP SCHEMA proto CASCADE")
await c.end()
