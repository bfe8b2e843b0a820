#!/bin/sh
# engine.sh STATE RUN: docker in the namespaces that `unshare` has made (engine.py), until standard input is closed.
# Images are kept in the directory STATE, everything else is in RUN. No port, mount or process of the machine is touched.
set -eu
state=$1 run=$2
ip link set lo up
# crun refuses a mixture of the two versions of cgroups. This unmounts one in this mount namespace alone.
umount /sys/fs/cgroup/unified 2>/dev/null || true
# crun gives the standard streams, /dev/null among them, to the user of a container: let that be a file of this namespace.
mknod -m 666 "$run/null" c 1 3
mount --bind "$run/null" /dev/null
# Containers stay in the cgroup of the tests: the limits of these hold, and no cgroup is left behind.
printf '#!/bin/sh\nexec crun --cgroup-manager=disabled "$@"\n' >"$run/crun"
chmod +x "$run/crun"
echo '{}' >"$run/daemon.json" # not that of the machine
dockerd --config-file "$run/daemon.json" --data-root "$state" --exec-root "$run/exec" --pidfile "$run/pid" --host "unix://$run/socket" \
  --add-runtime "here=$run/crun" --default-runtime here --log-level warn &
cat >/dev/null
kill $! 2>/dev/null || true
wait
