#!/bin/bash
# Does a sweep by a cluster's job array equal the local one? Slurm itself, on this machine: a controller and four nodes,
# all of them on loopback, with a key, ports and folders of their own. Nothing of an installed Slurm is touched.
#
#   local    the sweep on this machine
#   array    sbatch --array=1-4, `--shard $SLURM_ARRAY_TASK_ID/4`, then `sweep merge`
#   killed   the same; one job is cancelled in its midst, another one's program is killed; both are submitted again
#
# Ends with a table; exit status 1 if a hash or a file differs, 77 if Slurm is not there.
# RUNS=2000 runs; SCHEDLAB=PROGRAM. Debian's packages: slurmctld slurmd slurm-client munge
# shellcheck disable=SC2015 # (what comes after || may run in both cases)
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/sweep-lib.sh
schedlab=${SCHEDLAB:-$PWD/target/release/schedlab}
runs=${RUNS:-2000}
PATH=$PATH:/usr/sbin:/sbin
for program in slurmctld slurmd sbatch scancel squeue sinfo munged; do
	command -v "$program" >/dev/null || {
		echo "slurm: $program is missing; on Debian: apt-get install slurmctld slurmd slurm-client munge" >&2
		exit 77
	}
done
if [ "$(id -u)" != 0 ]; then
	echo "slurm: SKIPPED: a node's slurmd starts jobs, and needs root for that" >&2
	exit 77
fi

work=$(mktemp -d)
faults=0
daemons=()
# shellcheck disable=SC2317 # (by the trap)
stop() {
	scancel --quiet --user="$(id -un)" 2>/dev/null
	[ "${#daemons[@]}" = 0 ] || kill "${daemons[@]}" 2>/dev/null
	for pid in "${daemons[@]}"; do wait "$pid" 2>/dev/null; done
	rm -rf "$work"
}
trap stop EXIT

# Ports that nobody uses: the kernel gives them, and they are free again at once.
mapfile -t ports < <(python3 - <<'PYTHON'
import socket
taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(5)]
print(*(one.getsockname()[1] for one in taken), sep="\n")
PYTHON
)
nodes=4
mkdir "$work/state" "$work/munge" "$work/jobs"
chmod 755 "$work"
chmod 700 "$work/munge"
head -c 1024 /dev/urandom >"$work/munge/key"
chmod 600 "$work/munge/key"
{
	cat <<CONF
ClusterName=schedlab
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmctldParameters=enable_configless
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
CONF
	for n in $(seq "$nodes"); do
		echo "NodeName=n$n NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=${ports[n]} CPUs=1 State=UNKNOWN"
	done
	echo "PartitionName=all Nodes=n[1-$nodes] Default=YES MaxTime=INFINITE State=UP"
} >"$work/slurm.conf"
export SLURM_CONF=$work/slurm.conf

munged --foreground --force --key-file="$work/munge/key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" \
	--log-file="$work/munge/log" --seed-file="$work/munge/seed" >/dev/null 2>&1 &
daemons+=($!)
for _ in $(seq 100); do [ -S "$work/munge/socket" ] && break || sleep 0.05; done
slurmctld -D >/dev/null 2>&1 &
daemons+=($!)
for n in $(seq "$nodes"); do
	mkdir "$work/n$n"
	slurmd -D -N "n$n" >/dev/null 2>&1 &
	daemons+=($!)
done
for _ in $(seq 300); do
	[ "$(sinfo --noheader --Node --format=%t 2>/dev/null | grep -c '^idle$')" = "$nodes" ] && break || sleep 0.1
done
if [ "$(sinfo --noheader --Node --format=%t 2>/dev/null | grep -c '^idle$')" != "$nodes" ]; then
	echo "slurm: its nodes do not come up:" >&2
	sinfo --Node --long >&2
	tail -n 5 "$work"/*.log >&2
	exit 1
fi
sinfo >&2

write_sweep "$work/sweep.toml" "$runs"
# (status 1 of a sweep: some of its runs failed, as they should; their rows say why)
cat >"$work/job" <<JOB
#!/bin/bash
echo \$\$ >"$work/jobs/pid-\$SLURM_ARRAY_TASK_ID"
part=\$SLURM_ARRAY_TASK_ID
exec "$schedlab" --quiet sweep "$work/sweep.toml" -o "\$1-\$part" --shard "\$part/$nodes" --jobs 1
JOB

# row WHAT FAULTS NOTE
row() {
	printf '%-12s %6s  %s\n' "$@" >&2
	faults=$((faults + $2))
}
# DIR...: their numbers of runs, as a sum
runs_of() {
	for part in "$@"; do "$schedlab" --quiet sweep status "$part" | sed -n 's/ runs .*//p' | tr -d ,; done | paste -sd+
}

# same WHAT DIR NOTE
same() {
	local fault=0 note=$3
	[ "$(hash_of "$2")" = "$reference" ] || fault=1 note="another hash; $note"
	[ "$(bytes_of "$2")" = "$reference_bytes" ] || fault=1 note="other files; $note"
	row "$1" "$fault" "$note"
}
submit() { sbatch --parsable --array="1-$nodes" --ntasks=1 --output="$work/jobs/%A_%a.out" "$@"; }
states() { # JOB: how many of its parts are under way
	squeue --noheader --array --job "$1" 2>/dev/null | wc -l
}
ended() { while [ "$(states "$1")" != 0 ]; do sleep 0.2; done; }

"$schedlab" --quiet sweep "$work/sweep.toml" -o "$work/plain" >/dev/null 2>&1
reference=$(hash_of "$work/plain")
reference_bytes=$(bytes_of "$work/plain")
[ -n "$reference" ] || { row local 1 "does not run" && exit 1; }
row local 0 "$runs runs, hash $reference"

job=$(submit "$work/job" "$work/array") || exit 1
ended "$job"
"$schedlab" --quiet sweep merge "$work"/array-* -o "$work/array" >/dev/null
parts=$(runs_of "$work"/array-*)
same array "$work/array" "$parts runs"

rm -f "$work"/jobs/pid-*
job=$(submit "$work/job" "$work/killed") || exit 1
begun() { [ -n "$(find "$work/killed-$1/.work/journal" -type f -size +0 2>/dev/null)" ]; }
for _ in $(seq 600); do begun 1 && begun 3 && break || sleep 0.05; done
scancel "${job}_1"
kill -9 "$(cat "$work/jobs/pid-3")"
ended "$job"
kept=$(runs_of "$work"/killed-[13])
job=$(submit "$work/job" "$work/killed") || exit 1
ended "$job"
"$schedlab" --quiet sweep merge "$work"/killed-* -o "$work/killed" >/dev/null
[ "$((kept))" -gt 0 ] && [ "$((kept))" -lt $((runs / 3)) ] || row killed 1 "not in their midst: $kept runs were kept"
same killed "$work/killed" "one job cancelled, one program killed; theirs were $kept runs then"

# The same by dask, whose workers Slurm starts; with a Python that has the wheel and dask-jobqueue (PYTHON=...).
if [ -n "${PYTHON:-}" ]; then
	said=$("$PYTHON" scripts/slurm-dask.py "$work/sweep.toml" "$work/dask" "$work/jobs" 2>"$work/errors") &&
		same jobqueue "$work/dask" "$said" || row jobqueue 1 "$(tail -n 3 "$work/errors")"
else
	row jobqueue 0 "left out: PYTHON= names no Python with the wheel and dask-jobqueue"
fi

[ "$faults" = 0 ] || echo "$faults faults" >&2
exit $((faults > 0))
