#!/bin/sh
# The curl commands of the first specifications (000 to 004), against a server that was started with
#   ORK_PORT=8000 ORK_API_KEY=airflow-mini-secret-key ork serve
# BASE sets another address. Each line checks its response; the first wrong one ends the script with exit code 1.
set -eu
BASE=${BASE:-http://localhost:8000}
KEY=${ORK_API_KEY:-airflow-mini-secret-key}

fail() {
  echo "curl-flows: $1" >&2
  exit 1
}
# field NAME: prints the first value of that field in the JSON on standard input
field() {
  sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1
}
first() {
  sed "s/\(\"$1\":\"[^\"]*\"\).*/\1/" | field "$1"
}
expect() {
  case $3 in
    *"$2"*) ;;
    *) fail "$1: expected $2 in: $3" ;;
  esac
}
call() {
  curl -sS -H "X-API-Key: $KEY" "$@"
}
status_of() {
  call -o /dev/null -w '%{http_code}' "$@"
}
# reaches RUN STATUS: waits until the run has the status
reaches() {
  n=0
  until call "$BASE/runs/$1" | grep -q "\"status\":\"$2\""; do
    n=$((n + 1))
    [ "$n" -lt 600 ] || fail "run $1 did not become $2: $(call "$BASE/runs/$1")"
    sleep 0.05
  done
}

# --- 003: Airflow Mini, as printed -------------------------------------------------------------------------------------------
created=$(curl -s -X POST $BASE/workflows \
  -H "X-API-Key: $KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "id": "example_workflow",
    "tasks": [
      {"id": "A", "command": "echo A", "dependencies": []},
      {"id": "B", "command": "echo B", "dependencies": ["A"]},
      {"id": "C", "command": "echo C", "dependencies": ["A"]},
      {"id": "D", "command": "echo D", "dependencies": ["B", "C"]}
    ]
  }')
expect "003 deploy" '"name":"example_workflow"' "$created"
run=$(curl -s -X POST $BASE/workflows/example_workflow/run \
  -H "X-API-Key: $KEY" | first id)
[ -n "$run" ] || fail "003 run: no id"
reaches "$run" success
tasks=$(curl -s $BASE/runs/$run/tasks \
  -H "X-API-Key: $KEY")
for task in A B C D; do expect "003 tasks" "\"name\":\"$task\"" "$tasks"; done
[ "$(curl -s -o /dev/null -w '%{http_code}' $BASE/runs/$run)" = 401 ] || fail "003: a request without a key got in"
[ "$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $KEY" $BASE/runs/$run)" = 200 ] || fail "003: Bearer"

# --- 003: a failed task with retries left waits for its retry ------------------------------------------------------------------
call -X POST $BASE/workflows -H "Content-Type: application/json" -d '{
  "id": "flaky", "tasks": [ { "id": "A", "command": "exit 1", "max_retries": 3 } ] }' > /dev/null
run=$(call -X POST $BASE/workflows/flaky/run | first id)
n=0
until call "$BASE/runs/$run/tasks" | grep -q '"retries_left":2'; do
  n=$((n + 1))
  [ "$n" -lt 600 ] || fail "003 retries: $(call "$BASE/runs/$run/tasks")"
  sleep 0.05
done
[ "$(status_of -X POST "$BASE/runs/$run/cancel")" = 202 ] || fail "003 cancel"
reaches "$run" cancelled

# --- 000, 001, 002: definitions in YAML, params, logs, retry, versions -----------------------------------------------------------
deploy() {
  call -X POST $BASE/workflows -H "Content-Type: application/yaml" --data-binary @-
}
created=$(deploy <<YAML
name: etl
params: { who: { type: string, default: world } }
tasks:
  discover: { command: "echo '{\"files\":[\"a\",\"b\"]}'" }
  load: { depends_on: [discover], foreach: discover.files, command: "echo \${{ item }} for \${{ params.who }}" }
YAML
)
expect "000 deploy" '"version":1' "$created"
run=$(call -X POST $BASE/workflows/etl/runs -H "Content-Type: application/json" -d '{"params":{"who":"Ada"}}' | first id)
reaches "$run" success
expect "000 logs" "b for Ada" "$(call "$BASE/runs/$run/tasks/load/logs?index=1&follow=true")"
created=$(deploy <<YAML
name: etl
tasks: { only: { command: "test -e go" } }
YAML
)
expect "002 versions" '"version":2' "$created"
run=$(call -X POST $BASE/workflows/etl/runs | first id)
reaches "$run" failed
[ "$(status_of -X POST "$BASE/runs/$run/cancel")" = 409 ] || fail "000: cancel of a finished run"
again=$(call -X POST "$BASE/runs/$run/retry")
reaches "$run" failed
expect "000 explain" "only failed" "$(call "$BASE/runs/$run/explain")"
[ "$(status_of -X DELETE "$BASE/runs/$run")" = 204 ] || fail "000: delete of a run"
[ "$(status_of "$BASE/workflows/nobody")" = 404 ] || fail "000: a workflow that is not there"

# --- 004: jobs -------------------------------------------------------------------------------------------------------------------
job=$(call -X POST $BASE/api/v1/jobs -H "Content-Type: application/json" \
  -d '{ "name": "first", "queue": "mail", "priority": 7, "task": { "command": "echo sent" } }')
expect "004 create" '"queue":"mail"' "$job"
id=$(echo "$job" | first id)
after=$(call -X POST $BASE/api/v1/jobs -H "Content-Type: application/json" \
  -d "{ \"name\": \"second\", \"queue\": \"held\", \"dependencies\": [\"$id\"] }" | first id)
n=0
until call "$BASE/api/v1/jobs/$id" | grep -q '"status":"COMPLETED"'; do
  n=$((n + 1))
  [ "$n" -lt 600 ] || fail "004: the job did not end: $(call "$BASE/api/v1/jobs/$id")"
  sleep 0.05
done
expect "004 release" '"status":"READY"' "$(call "$BASE/api/v1/jobs/$after")"
expect "004 update" '"priority":9' "$(call -X PUT "$BASE/api/v1/jobs/$after" -H "Content-Type: application/json" -d '{ "priority": 9 }')"
[ "$(status_of -X PUT "$BASE/api/v1/jobs/$id" -H "Content-Type: application/json" -d '{ "priority": 1 }')" = 409 ] \
  || fail "004: update of a terminal job"
[ "$(status_of -X DELETE "$BASE/api/v1/jobs/$id")" = 409 ] || fail "004: deletion of a job with dependents"
expect "004 search" "\"id\":\"$after\"" "$(call "$BASE/api/v1/jobs?queue=held&status=READY&priority_min=9&limit=1")"
[ "$(status_of "$BASE/api/v1/jobs?limit=101")" = 400 ] || fail "004: limit 101"
[ "$(status_of "$BASE/api/v1/jobs?cursor=nonsense")" = 400 ] || fail "004: a cursor that is none"
[ "$(status_of -X DELETE "$BASE/api/v1/jobs/$after")" = 204 ] || fail "004: deletion"
[ "$(status_of "$BASE/api/v1/jobs/$after")" = 404 ] || fail "004: a deleted job"

echo "curl-flows: all flows work"
