#!/bin/bash
# A real Slurm of one node for tests, without accounting.
# usage: slurm.sh FOLDER PORT   Uses PORT and the next one; its commands need SLURM_CONF=FOLDER/slurm.conf.
# Prints "ready", serves until its standard input ends, and then stops every process.
set -e
D=$1 PORT=$2 HOST=$(hostname -s)
exec 2> "$D/log"
mkdir -p "$D"/{munge,state,spool}
chmod 755 "$D"
chmod 700 "$D/munge"
dd if=/dev/urandom of="$D/munge/key" bs=1 count=1024 status=none
chmod 600 "$D/munge/key"
cat > "$D/slurm.conf" <<C
ClusterName=test
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$PORT
SlurmdPort=$((PORT + 1))
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$D/munge/sock
CredType=cred/munge
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool
SlurmctldPidFile=$D/slurmctld.pid
SlurmdPidFile=$D/slurmd.pid
SlurmctldLogFile=$D/slurmctld.log
SlurmdLogFile=$D/slurmd.log
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=100000
MinJobAge=300
NodeName=$HOST NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=1000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
C
export SLURM_CONF=$D/slurm.conf
PIDS=()
finish() {
  scancel --state=RUNNING --state=PENDING > /dev/null 2>&1 || true
  kill "${PIDS[@]}" 2> /dev/null || true
  wait 2> /dev/null || true
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
run() { "$@" < /dev/null > /dev/null 2>> "$D/log" & PIDS+=($!); }
run munged --foreground --force --socket="$D/munge/sock" --key-file="$D/munge/key" --pid-file="$D/munge/pid" \
  --log-file="$D/munge/log" --seed-file="$D/munge/seed"
for _ in $(seq 100); do [ -S "$D/munge/sock" ] && break; sleep 0.05; done
run slurmctld -D
run slurmd -D -N "$HOST"
for _ in $(seq 600); do
  sinfo -h -o %T 2> /dev/null | grep -q idle && break
  kill -0 "${PIDS[@]}" || { cat "$D"/*.log >&2; exit 1; }
  sleep 0.1
done
echo ready
cat > /dev/null
