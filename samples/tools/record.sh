#!/bin/bash
# Records one run of work.py with several tools at once: ftrace (a private instance), perf sched record (to a file, to a pipe,
# compressed) and, if there is Perfetto, that (compact, plain and packed). Wants root, perf, trace-cmd, python3; Perfetto's
# programs are traced, traced_probes, perfetto in the folder $PERFETTO, default /usr/bin. $1: folder for the recordings.
set -e
out=$1
here=$(dirname "$(readlink -f "$0")")
tracing=/sys/kernel/tracing
perfetto=${PERFETTO:-/usr/bin}
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
mkdir -p "$out"
export PERFETTO_PRODUCER_SOCK_NAME=$out/producer PERFETTO_CONSUMER_SOCK_NAME=$out/consumer

calls="sched_yield setpriority sched_setscheduler"
instance=$tracing/instances/schedlab-tools
mkdir -p "$instance" $tracing/instances/schedlab-p{1,2,3}
trap 'sleep 0.2; rmdir $tracing/instances/schedlab-{tools,p1,p2,p3} 2>/dev/null || true' EXIT # trace-cmd may have removed its own
echo 4096 >"$instance/buffer_size_kb"
echo mono >"$instance/trace_clock"
echo 0 >"$instance/tracing_on"
for event in switch waking wakeup_new process_fork process_exec process_exit migrate_task pi_setprio; do
    echo 1 >"$instance/events/sched/sched_$event/enable"
done
for call in $calls; do
    echo 1 >"$instance/events/syscalls/sys_enter_$call/enable"
    echo 1 >"$instance/events/syscalls/sys_exit_$call/enable"
done

config() { # instance, compact?, packing
    echo "buffers { size_kb: 16384 } $3"
    echo 'data_sources { config { name: "linux.ftrace" ftrace_config {'
    for event in switch waking wakeup_new process_fork process_exec process_exit migrate_task pi_setprio; do
        echo "ftrace_events: \"sched/sched_$event\""
    done
    echo 'ftrace_events: "raw_syscalls/sys_enter" ftrace_events: "raw_syscalls/sys_exit"'
    for call in $calls; do echo "syscall_events: \"sys_$call\""; done
    echo "compact_sched { enabled: $2 } instance_name: \"$1\" } } }"
}
sessions=()
if [ -x "$perfetto/traced" ]; then
    "$perfetto/traced" >/dev/null 2>&1 & traced=$!
    sleep 0.3
    "$perfetto/traced_probes" >/dev/null 2>&1 & probes=$!
    sleep 0.5
    config schedlab-p1 true "" >"$out/compact.cfg"
    config schedlab-p2 false "" >"$out/plain.cfg"
    config schedlab-p3 true "compression_type: COMPRESSION_TYPE_DEFLATE" >"$out/packed.cfg"
    for kind in compact plain packed; do
        "$perfetto/perfetto" --txt -c "$out/$kind.cfg" -o "$out/$kind.perfetto" >/dev/null 2>&1 &
        sessions+=($!)
    done
fi
events=(-e sched:sched_process_exec -e sched:sched_process_exit)
for call in $calls; do events+=(-e "syscalls:sys_enter_$call" -e "syscalls:sys_exit_$call"); done
perf sched record -k mono -o "$out/perf.data" "${events[@]}" -- sleep 9 >/dev/null 2>&1 & p1=$!
perf sched record -k mono -z -o "$out/perf-z.data" "${events[@]}" -- sleep 9 >/dev/null 2>&1 & p2=$!
perf sched record -k mono -o - "${events[@]}" -- sleep 9 >"$out/perf-pipe.data" 2>/dev/null & p3=$!
sleep 6
echo 1 >"$instance/tracing_on"
"$python" -I "$here/work.py"
echo 0 >"$instance/tracing_on"
wait $p1 $p2 $p3
if [ ${#sessions[@]} -gt 0 ]; then
    kill -INT "${sessions[@]}"
    wait "${sessions[@]}" || true
fi
cat "$instance/trace" >"$out/ftrace.txt"
echo noirq-info >"$instance/trace_options"
cat "$instance/trace" >"$out/ftrace-noirq.txt"
echo irq-info >"$instance/trace_options"
trace-cmd extract -B schedlab-tools -o "$out/trace.dat" >/dev/null 2>&1
if [ ${#sessions[@]} -gt 0 ]; then
    kill "$probes" "$traced"
    wait "$probes" "$traced" || true
fi
trace-cmd report -i "$out/trace.dat" -t >"$out/report.txt" 2>/dev/null
trace-cmd report -i "$out/trace.dat" -l >"$out/report-l.txt" 2>/dev/null
perf script -i "$out/perf.data" --ns >"$out/script.txt" 2>/dev/null
rm -f "$out"/*.cfg "$out/producer" "$out/consumer"
