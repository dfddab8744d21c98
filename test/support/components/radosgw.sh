#!/bin/bash
# A real S3 server for tests: Ceph's radosgw on a cluster of one monitor and one OSD in memory.
# usage: radosgw.sh FOLDER MON_PORT_2 MON_PORT_1 S3_PORT ACCESS_KEY SECRET
# Prints "ready", serves until its standard input ends, then stops every process and removes the folder.
set -e
D=$1 PORT=$4
mkdir -p "$D"/{mon,osd,rgw,log}
cd "$D"
FSID=$(cat /proc/sys/kernel/random/uuid)
MONS="[v2:127.0.0.1:$2,v1:127.0.0.1:$3]"
cat > ceph.conf <<C
[global]
fsid = $FSID
mon host = $MONS
public addr = 127.0.0.1
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd crush chooseleaf type = 0
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail crit = 0
osd objectstore = memstore
memstore device bytes = 2147483648
run dir = $D
admin socket = $D/\$name.\$pid.asok
pid file = $D/\$name.pid
log file = $D/log/\$name.log
keyring = $D/keyring
mon data = $D/mon
osd data = $D/osd
rgw data = $D/rgw
osd max object name len = 256
osd max object namespace len = 64
setuser match path = /nonexistent
C
export CEPH_CONF=$D/ceph.conf
PIDS=()
finish() {
  kill -KILL "${PIDS[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  cd /
  rm -rf "$D"
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
monmaptool --create --fsid "$FSID" --addv a "$MONS" monmap > log/setup 2>&1
ceph-authtool --create-keyring keyring --gen-key -n mon. --cap mon 'allow *' >> log/setup
ceph-authtool keyring --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *' >> log/setup
ceph-authtool keyring --gen-key -n osd.0 --cap mon "allow profile osd" --cap osd "allow *" --cap mgr "allow *" >> log/setup
ceph-mon --mkfs -i a --monmap monmap --keyring keyring >> log/setup 2>&1
ceph-mon -f -i a < /dev/null >> log/mon.out 2>&1 & PIDS+=($!)
OSD=$(cat /proc/sys/kernel/random/uuid)
timeout 60 ceph osd new "$OSD" 0 >> log/setup 2>&1
ceph-osd -i 0 --mkfs --osd-uuid "$OSD" >> log/setup 2>&1
ceph-osd -f -i 0 < /dev/null >> log/osd.out 2>&1 & PIDS+=($!)
radosgw -f -n client.admin --rgw-frontends "beast endpoint=127.0.0.1:$PORT tcp_nodelay=1" --rgw-data "$D/rgw" \
  --keyring "$D/keyring" --rgw-thread-pool-size 32 < /dev/null >> log/rgw.out 2>&1 & PIDS+=($!)
for _ in $(seq 600); do curl -s -o /dev/null "http://127.0.0.1:$PORT/" && break; sleep 0.1; done
timeout 60 radosgw-admin user create --uid=ork --display-name=ork --access-key="$5" --secret="$6" >> log/setup 2>&1
echo ready
cat > /dev/null
