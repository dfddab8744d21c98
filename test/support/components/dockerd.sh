#!/bin/bash
# A real Docker engine for tests on its own socket, without networks or registries.
# usage: dockerd.sh FOLDER   The socket is FOLDER/sock, the only image `ork-test:latest`: busybox.
# Prints "ready", serves until its standard input ends, and then stops every container.
set -e
D=$1
exec 2> "$D/log"
dockerd --data-root "$D/data" --exec-root "$D/exec" --pidfile "$D/pid" -H "unix://$D/sock" --iptables=false --ip6tables=false \
  --bridge=none --storage-driver=overlay2 --oom-score-adjust=0 < /dev/null > "$D/dockerd.log" 2>&1 &
DOCKERD=$!
docker() { command docker -H "unix://$D/sock" "$@"; }
finish() {
  docker ps -aq | xargs -r docker -H "unix://$D/sock" rm -f > /dev/null 2>&1 || true
  kill -TERM $DOCKERD 2> /dev/null || true
  wait $DOCKERD 2> /dev/null || true
}
trap finish EXIT
trap 'exit 1' INT TERM HUP
for _ in $(seq 600); do
  docker version > /dev/null 2>&1 && break
  kill -0 $DOCKERD 2> /dev/null || { cat "$D/dockerd.log" >&2; exit 1; }
  sleep 0.1
done
mkdir -p "$D/root/bin" "$D/root/tmp" "$D/root/etc"
chmod 1777 "$D/root/tmp"
cp "$(command -v busybox)" "$D/root/bin/busybox"
for name in $(busybox --list); do [ "$name" = busybox ] || ln -sf busybox "$D/root/bin/$name"; done
printf 'root:x:0:0:root:/root:/bin/sh\n' > "$D/root/etc/passwd"
tar c -C "$D/root" . | docker import --change 'ENV PATH=/bin FROM_IMAGE=yes' - ork-test:latest > /dev/null
echo ready
cat > /dev/null
