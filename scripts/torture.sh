#!/bin/bash
# What does the program leave behind when the world is against it? Ends with a table; exit status 1 if a row has a fault.
#
#   kill     `kill -9` at random moments of each long command, KILLS of each that hit a live process: nothing is left that a
#            later run trips over (half a file under the output's name, a process, a tracing instance that the next start keeps)
#   sigint   Ctrl-C at random moments, a tenth as many: the same, within two seconds
#   full     outputs, temporary files and the cache on a disk with no space: exit 2 and a sentence, no half file
#   stdout   standard output on /dev/full: exit 2, no panic
#   cache    a cache that cannot be written: what needs none works, the rest ends with 2 and a sentence
#   names    hostile names of files and tasks: nothing is executed, nothing reaches the terminal or a page raw
#
# KILLS=100 (default) kills of each command; SEED=1 repeats the same moments; ONLY="kill names" does these groups alone,
# COMMANDS='report|race' kills these commands alone.
# Root adds recordings and a full disk (a tmpfs). What kills do to a sweep's dataset is scripts/sweep-torture.sh's.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
schedlab=${SCHEDLAB:-$PWD/target/release/schedlab}
kills=${KILLS:-100}
RANDOM=${SEED:-1}
only=${ONLY:-kill sigint full stdout cache names}
commands=${COMMANDS:-.}
work=$(mktemp -d)
full=$work/full
table=$work/table
faults=0
mkdir "$full"
trap 'mountpoint -q "$full" && umount "$full"; rm -rf "$work"' EXIT

# row GROUP WHAT TIMES FAULTS NOTE
row() {
	printf '%-7s %-44s %6s %6s  %s\n' "$@" >>"$table"
	printf '%-7s %-44s %6s %6s  %s\n' "$@" >&2
	faults=$((faults + $4))
}

# Whether a group of rows is asked for.
wants() { [[ " $only " == *" $1 "* ]]; }

# Whether a long command is to be killed.
chosen() { [[ $1 =~ $commands ]]; }

# Processes of this run that are still there, zombies apart: workers, guests, builds.
survivors() {
	local file marked=0
	while read -r file; do
		grep -q '^State:[[:space:]]*Z' "${file%/environ}/status" 2>/dev/null || marked=$((marked + 1))
	done < <(grep -lzsx "TORTURE=$work" /proc/[0-9]*/environ)
	echo "$marked"
}

# start COMMAND...: in the background, as a shell's user starts it (a script's own children would ignore Ctrl-C); sets pid.
start() {
	trap '' INT # until it is its program: interrupted before, it would take the script's way out
	(cd "$folder" && TORTURE=$work TMPDIR=$tmp exec env --default-signal=INT "$@") >/dev/null 2>"$work/said" &
	pid=$!
	trap - INT
}

# settled TENTHS: waits so long for all processes to end; whether they have
settled() {
	local waited=0
	while [ "$(survivors)" -gt 0 ]; do
		[ "$waited" -lt "$1" ] || return 1
		sleep 0.1
		waited=$((waited + 1))
	done
}

# What lies in a folder and is not on the list of names that may be there (a pattern).
strangers() { find "$1" -mindepth 1 -maxdepth 1 ! -name "$2" | wc -l; }

# whole FILE: whether a file of a command that measures time is all there.
whole() {
	case $1 in
	*.html) tail -c 20 "$1" | grep -q '</html>' ;;
	*.json) python3 -c 'import json, sys; json.load(open(sys.argv[1]))' "$1" ;;
	*.dat) "$schedlab" --quiet import "$1" >/dev/null 2>&1 ;;
	*) "$schedlab" --quiet export "$1" -o "$work/read.txt" --force >/dev/null 2>&1 || [ -s "$1" ] ;;
	esac
}

# look PATTERN: files in the folder that are not whole; adds to bad, sets note. Whole is what the undisturbed command wrote,
# or, of a command that measures time (an empty reference), what can be read to its end.
look() {
	local line file
	while read -r line; do
		[ -n "$line" ] || continue
		file=$folder/${line##* ./}
		if [ -n "$reference" ]; then
			grep -qxF "$line" <<<"$reference" && continue
		else
			whole "$file" && continue
		fi
		bad=$((bad + 1))
		note="half a file: ${line##* }"
	done < <(cd "$folder" && find . -type f \( -path "./$1" -o -path "./$1/*" \) -exec sha256sum {} +)
	if [ "$(strangers "$folder" "$1")" -gt 0 ]; then
		bad=$((bad + 1))
		note="it leaves $(find "$folder" -mindepth 1 -maxdepth 1 ! -name "$1" -printf '%f ' | head -c 60)"
	fi
}

# at_random GROUP NAME PATTERN COMMAND...: kills or interrupts it in a folder of its own, whose entries may be called PATTERN. With
# MEASURES=1 its files differ from run to run. Every moment that is counted hit a live process: the signal ended it.
at_random() {
	local group=$1 name=$2 pattern=$3 folder=$work/kill tmp=$work/tmp hit=0 bad=0 tries=0 length begin pid us status note="" reference=""
	local signal=KILL ended=137 wanted=$kills tenths=50
	shift 3
	wants "$group" && chosen "$name" || return 0
	if [ "$group" = sigint ]; then
		signal=INT ended=130 wanted=$((kills / 10 + 1)) tenths=20
	fi
	mkdir -p "$folder" "$tmp"
	begin=$(date +%s%N)
	(cd "$folder" && TORTURE=$work TMPDIR=$tmp timeout 300 "$@") >/dev/null 2>"$work/errors"
	status=$?
	length=$((($(date +%s%N) - begin) / 1000))
	if [ "$status" -gt 1 ]; then # 1 is a finding
		row "$group" "$name" 0 1 "does not run: $(tail -1 "$work/errors")"
		return
	fi
	[ -n "${MEASURES:-}" ] || reference=$(cd "$folder" && find . -type f -exec sha256sum {} +)
	while [ "$hit" -lt "$wanted" ] && [ "$tries" -lt $((wanted * 10 + 20)) ]; do
		tries=$((tries + 1))
		rm -rf "${folder:?}" && mkdir "$folder"
		us=$(((RANDOM * 32768 + RANDOM) % length))
		start "$@"
		sleep "$(printf '%d.%06d' $((us / 1000000)) $((us % 1000000)))"
		kill -"$signal" "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
		status=$?
		# (how long it takes depends on what else the host does: moments follow, up to just beyond the end)
		if [ "$status" -eq "$ended" ]; then
			hit=$((hit + 1))
			length=$((length + length / 40))
		elif [ "$status" -gt 1 ]; then
			bad=$((bad + 1))
			note="status $status: $(tail -1 "$work/said" | head -c 80)"
		else
			length=$((length - length / 20))
		fi
		settled "$tenths" || {
			bad=$((bad + 1))
			note="a process outlives it"
		}
		look "$pattern"
	done
	# the next start cleans what a killed one could not
	(cd "$folder" && TORTURE=$work TMPDIR=$tmp "$@") >/dev/null 2>&1
	local left
	left=$(find "$tmp" -mindepth 1 | wc -l)
	[ "$left" -eq 0 ] || {
		bad=$((bad + 1))
		note="$left temporary files stay after the next start: $(find "$tmp" -mindepth 1 -printf '%f ' | head -c 60)"
	}
	rm -rf "${tmp:?}" "${folder:?}"
	[ "$hit" -ge "$wanted" ] || {
		bad=$((bad + 1))
		note="$note only $hit of $wanted hit"
	}
	row "$group" "$name" "$hit" "$bad" "$note"
}

# Both signals.
killed_and_interrupted() {
	at_random kill "$@"
	at_random sigint "$@"
}

# fails_well GROUP NAME COMMAND...: ends with 2 and a sentence, and does not panic.
fails_well() {
	local group=$1 name=$2 status errors
	shift 2
	timeout 120 "$@" 2>"$work/errors"
	status=$?
	errors=$(tr '\n' ' ' <"$work/errors")
	if [ "$status" -eq 2 ] && [ -n "$errors" ] && ! grep -qE 'panicked|internal error' <<<"$errors"; then
		row "$group" "$name" 1 0 ""
	else
		row "$group" "$name" 1 1 "status $status: ${errors:0:100}"
	fi
}

compile=$PWD/samples/compile
gzip=$PWD/samples/gzip
hand=$PWD/samples/hand/sleepers8.txt
linux=$("$schedlab" linux list 2>/dev/null | grep -c linux-6.12)
"$schedlab" --quiet run "$compile" --sched posix --cpus 4 --log "$work/compile.arrow" >/dev/null # which idles beside waiting work
cat >"$work/sweep.toml" <<TOML
[grid]
generate = "sleepers"
set.tasks = 4
set.run = "1ms"
set.sleep = "2ms"
set.duration = "100ms"
sched = ["rr", "eevdf"]
cpus = [1, 2]
seed = { from = 1, to = 100 }
TOML
quiet() { killed_and_interrupted "$1" "$2" "$schedlab" --quiet --reproducible "${@:3}"; }

quiet "run, text log" out.txt run "$compile" --sched cfs-2.6.32 --cpus 4 --log out.txt
quiet "run, Arrow log" out.arrow run "$compile" --sched fifo --cpus 4 --log out.arrow
quiet "run, page and Perfetto" 'out.*' run "$compile" --sched fifo --cpus 4 --html out.html --perfetto out.pftrace --json out.json
quiet "run, seeds" 'out-*' run "$compile" --sched fifo --cpus 4 --seed 1-4 --jobs 2 --log 'out-{seed}.txt'
if [ "$linux" -gt 0 ]; then
	quiet "run, real Linux" out.txt run "$compile" --sched linux-6.12 --cpus 4 --log out.txt
else
	row kill "run, real Linux" 0 0 "Linux 6.12 is not built here"
fi
quiet "import" out.txt import "$compile" -o out.txt
quiet "workload convert" out.wlb workload convert "$compile" -o out.wlb
quiet "generate" out.txt generate sleepers -o out.txt
quiet "compare" 'out.*' compare "$gzip" --sched fifo --sched rr --cpus 2 --jobs 2 --json out.json --html out.html
# (the tasks' settings, out.proc.csv, come first: a recording that is there is never without them)
quiet "export" 'out.*' export "$work/compile.arrow" -o out.dat
quiet "report" 'out.*' report "$compile" --html out.html --json out.json --log out.arrow --csv out.csv
quiet "fidelity" 'out.*' fidelity "$gzip" --sched eevdf --html out.html --json out.json
quiet "wasted" 'out.*' wasted "$work/compile.arrow" --longer 1us --json out.json -o out.txt
quiet "harmony" 'out.*' harmony --sched eevdf --jobs 2 --html out.html --json out.json
quiet "harmony plan" out harmony plan -o out
quiet "race" 'out*' race "$PWD/samples/race/lowest.c" --schedules 3000 -o out --json out.json --html out.html
quiet "fairness" 'out.*' fairness --shares 3,2,1 --sched vtrr,wfq,eevdf --json out.json --html out.html
quiet "schedulability" out schedulability --sets 20 -o out
MEASURES=1 quiet "hourglass" 'out.*' hourglass -d 500ms --html out.html --json out.json --log out.txt

# A killed sweep goes on: the dataset is that of one that nobody killed.
if wants kill && chosen sweep; then
	folder=$work/kill tmp=$work/tmp hit=0 bad=0 note=""
	mkdir -p "$folder" "$tmp"
	begin=$(date +%s%N)
	"$schedlab" --quiet sweep "$work/sweep.toml" -o "$work/plain" --jobs 2 >/dev/null 2>&1
	length=$((($(date +%s%N) - begin) / 1000))
	for _ in $(seq $((kills * 5 + 20))); do
		[ "$hit" -lt "$kills" ] || break
		[ $((hit % 4)) -ne 0 ] || rm -rf "$folder/d"
		start "$schedlab" --quiet sweep "$work/sweep.toml" -o d --jobs 2
		us=$(((RANDOM * 32768 + RANDOM) % length))
		sleep "$(printf '%d.%06d' $((us / 1000000)) $((us % 1000000)))"
		kill -9 "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
		case $? in
		137) hit=$((hit + 1)) length=$((length + length / 40)) ;;
		*) # it was complete: there is nothing more to kill
			rm -rf "$folder/d"
			length=$((length - length / 20))
			;;
		esac
		settled 50 || bad=$((bad + 1)) note="a process outlives it"
	done
	start "$schedlab" --quiet sweep "$work/sweep.toml" -o d --jobs 2
	wait "$pid" || bad=$((bad + 1)) note="it does not go on: $(tail -1 "$work/said")"
	hash_of() { "$schedlab" --quiet sweep status "$1" | sed -n 's/^hash //p'; }
	[ "$(hash_of "$folder/d")" = "$(hash_of "$work/plain")" ] || bad=$((bad + 1)) note="another dataset"
	[ "$(find "$tmp" -mindepth 1 | wc -l)" -eq 0 ] || bad=$((bad + 1)) note="temporary files stay"
	[ "$hit" -ge "$kills" ] || bad=$((bad + 1)) note="only $hit of $kills hit"
	row kill "sweep, which goes on" "$hit" "$bad" "$note"
	rm -rf "${folder:?}" "${tmp:?}"
fi

# A recording differs each time: what matters is what stays. The last one must be one.
instances() { find /sys/kernel/tracing/instances -mindepth 1 -maxdepth 1 -name 'schedlab*' | wc -l; }
if ! chosen record; then
	:
elif wants kill && [ "$(id -u)" -eq 0 ] && [ -d /sys/kernel/tracing/instances ]; then
	folder=$work/kill tmp=$work/tmp hit=0 bad=0 note=""
	before=$(instances)
	for _ in $(seq $((kills * 5 + 20))); do
		[ "$hit" -lt "$kills" ] || break
		rm -rf "${folder:?}" && mkdir -p "$folder" "$tmp"
		start "$schedlab" --quiet record -o out.dat -- sleep 0.3
		sleep "0.$(printf '%03d' $((RANDOM % 600)))"
		kill -9 "$pid" 2>/dev/null
		wait "$pid" 2>/dev/null
		[ $? -ne 137 ] || hit=$((hit + 1))
		settled 20 || bad=$((bad + 1)) note="a process outlives it by 2 s"
		reference="" look 'out.*'
	done
	start "$schedlab" --quiet record -o out.dat -- true
	wait "$pid" || bad=$((bad + 1)) note="the next one ends with $?: $(tail -1 "$work/said")"
	after=$(instances)
	[ "$after" -le "$before" ] || bad=$((bad + after - before)) note="$((after - before)) tracing instances stay after the next"
	[ "$hit" -ge "$kills" ] || bad=$((bad + 1)) note="only $hit of $kills hit"
	row kill "record" "$hit" "$bad" "$note"
	rm -rf "${folder:?}" "${tmp:?}"
elif wants kill; then
	row kill "record" 0 0 "needs root and tracefs"
fi

if wants full && [ "$(id -u)" -eq 0 ] && mount -t tmpfs -o size=64k torture "$full" 2>/dev/null; then
	head -c 60k /dev/zero >"$full/filler" 2>/dev/null
	out=$full/out
	full() { fails_well full "$1" "$schedlab" --quiet "${@:2}" >/dev/null; }
	full "run --log" run "$compile" --sched fifo --cpus 2 --log "$out.txt"
	full "run --html" run "$gzip" --sched fifo --cpus 2 --html "$out.html"
	full "import -o" import "$compile" -o "$out.txt"
	full "machines --snapshot" machines --snapshot "$full/snapshot"
	TMPDIR=$full full "run, full TMPDIR" run "$compile" --sched fifo --cpus 2
	full "report --log" report "$compile" --log "$out.txt"
	full "report --html" report "$compile" --html "$out.html"
	full "fidelity --html" fidelity "$gzip" --sched fifo --no-causes --html "$out.html"
	full "wasted -o" wasted "$work/compile.arrow" --longer 1us -o "$out.txt" --json "$out.json"
	full "harmony --html" harmony --sched fifo --quick --html "$out.html"
	full "harmony plan" harmony plan -o "$full/plans"
	full "race -o, --html" race "$PWD/samples/race/lowest.c" --schedules 300 -o "$out" --html "$out.html" --json "$out.json"
	full "hourglass --log" hourglass -d 300ms --log "$out.txt" --html "$out.html"
	full "sweep -o" sweep "$work/sweep.toml" -o "$full/d"
	full "schedulability -o" schedulability --sets 20 -o "$full/s"
	rm -rf "$full/d" "$full/s" "$full/plans" # folders may be there, and what is in them
	row full "half files on it" 15 "$(strangers "$full" filler)" "$(find "$full" -mindepth 1 ! -name filler -printf '%f ')"
	umount "$full"
elif wants full; then
	row full "a disk with no space" 0 0 "needs root to mount a tmpfs"
fi

# (the group's own status is what counts: the command's output goes to the full device)
stdout_full() { "$@" >/dev/full; }
export -f stdout_full
lowest=$PWD/samples/race/lowest.c
if wants stdout; then
	"$schedlab" --quiet sweep "$work/sweep.toml" -o "$work/shown" >/dev/null 2>&1
	for words in "run $hand --sched fifo --cpus 1" "workload show $hand" "schedulers" "schedulers --json" "machines" "linux list" \
		"report $gzip" "report $gzip --json -" "fidelity $gzip --sched fifo --no-causes" "wasted $work/compile.arrow" \
		"wasted $gzip --json -" "harmony --sched fifo --quick" "harmony --sched fifo --quick --json -" \
		"race $lowest --schedules 300 -o $work/found" "race $lowest --schedules 300 -o $work/found --json -" "race --header" \
		"hourglass -d 300ms" "hourglass -d 300ms --json -" "sweep $work/sweep.toml --dry-run" "sweep status $work/shown" \
		"sweep show $work/shown" "sweep show $work/shown --json -" "fairness --shares 3,2,1 --sched vtrr" "diff $work/compile.arrow $work/compile.arrow" \
		"compare $gzip --sched fifo --sched rr --cpus 2 --runs 2" "linux bugs" "manual completions bash"; do
		name=${words//"$PWD/samples/hand/"/}
		name=${name//"$PWD/samples/"/}
		fails_well stdout "${name//"$work/"/}" bash -c "stdout_full $schedlab --quiet $words"
	done
fi

cache=$work/no-cache
: >"$cache" # a file where the folder should be: not even root can write below it
if wants cache; then
	for words in "schedulers fifo" "run $hand --sched fifo --cpus 1" "machines" "report $gzip" \
		"fidelity $gzip --sched fifo --no-causes" "wasted $work/compile.arrow" "harmony --sched fifo --quick" \
		"race $lowest --schedules 300 -o $work/found" "hourglass -d 300ms" "sweep $work/sweep.toml -o $work/uncached" \
		"compare $gzip --sched fifo --sched rr --cpus 2 --runs 2" "workload show $hand" "import $gzip"; do
		name=${words//"$PWD/samples/hand/"/}
		name=${name//"$PWD/samples/"/}
		name=${name//"$work/"/}
		SCHEDLAB_CACHE=$cache timeout 60 "$schedlab" --quiet $words >/dev/null 2>"$work/errors"
		case $? in
		0 | 1) row cache "$name" 1 0 "" ;; # 1 is a finding
		*) row cache "$name" 1 1 "$(head -c 100 "$work/errors")" ;;
		esac
	done
	uncached() { SCHEDLAB_CACHE=$cache fails_well cache "$1" "$schedlab" --quiet "${@:2}" >/dev/null; }
	uncached "linux list" linux list # it says that there is no folder, not that there are no kernels
	uncached "run on linux-6.12" run "$hand" --sched linux-6.12 --cpus 1
	uncached "harmony on linux-6.12" harmony --sched linux-6.12 --quick
	uncached "race on cpupri of linux-6.12" race cpupri --schedules 10
	uncached "fidelity on linux-6.12" fidelity "$gzip" --sched linux-6.12
fi

if wants names; then
	bad=$'$(touch pwned)\e[2J;`touch pwned`\n<script>alert(1)</script>\u202e-rf.txt'
	bad=${bad////_} # a file's name
	task='\x1b[2J</script><script>alert(1)</script>\u{202e}$(touch pwned)`touch pwned`'
	folder=$work/names
	mkdir "$folder"
	# commands that name the file, read it as what they expect, and meet tasks of such names
	(
		cd "$folder" || exit 1
		try() {
			echo "torture: $*"
			timeout 120 "$schedlab" "$@" </dev/null
			echo "torture: status $?"
		}
		printf 'schedlab-workload 1\n- INIT 0 0 1 runnable name="%s"\n- BLOCK 1 1ms\n- WAKEUP 1 1ms\n- EXIT 1 1ms\n- INIT 0 0 2 runnable name="%s2"\n- EXIT 2 9ms\n' \
			"$task" "$task" >"./$bad"
		sed "s/record\.sh/re\x1b[2Jcord<b>/g" "$OLDPWD/samples/tools/ftrace.txt" >"./trace-$bad"
		try run "./$bad" --sched fifo --cpus 1 --html r.html --perfetto r.pftrace --log "log-$bad" --csv r.csv
		try run "./$bad" --sched fifo --cpus 1 --json - --strict
		try compare "./$bad" --sched fifo --sched rr --cpus 1 --runs 2 --html c.html --json c.json
		try workload show "./$bad"
		try workload convert "./$bad" -o "out-$bad"
		try import "./$bad" -o i.txt
		try export "log-$bad" -o "export-$bad"
		try wasted "log-$bad" --longer 1us
		try wasted "log-$bad" --longer 1us --json -
		try diff "log-$bad" "log-$bad" --json d.json
		try report "./trace-$bad" --html rep.html --csv rep.csv
		try report "./trace-$bad" --json -
		try import "./trace-$bad"
		try wasted "./trace-$bad" --longer 1us
		try fidelity "./trace-$bad" --sched fifo --no-causes --html fid.html
		try fidelity "./trace-$bad" "./$bad" --sched fifo
		printf '[grid]\nworkload = "%s"\nsched = "fifo"\ncpus = 1\n' 'w.txt' >sweep.toml
		cp "./$bad" w.txt
		try sweep sweep.toml -o "d-$bad"
		try sweep status "d-$bad"
		try sweep show "d-$bad"
		try sweep show "d-$bad" --json -
		printf '[grid]\nworkload = "\\u001b[2J$(touch pwned)"\nsched = ["\\u001b[2J"]\ncpus = 1\n' >"sweep-$bad"
		try sweep "sweep-$bad" -o e
		try harmony --sched fifo --plan "./$bad"
		try harmony --sched "$bad" --quick
		try harmony judge "./$bad"
		try hourglass --plan "./$bad"
		try hourglass infer --from "./log-$bad"
		try hourglass infer --from "./$bad"
		try race "./$bad"
		cp "$OLDPWD/samples/race/lowest.c" "./$bad.c"
		try race "./$bad.c" --schedules 300 --html race.html
		try race --replay "./$bad"
		try race cpupri --scenario "./$bad"
		try fairness --shares "$bad" --sched vtrr
		for words in "run" "workload show" "import"; do
			try $words -- "./$bad" --sched nothing
			try run "$hand" --sched "$bad" --cpus 1
			try run "$hand" --sched "linux:$bad" --cpus 1
			try run "$hand" --sched "scx:./$bad" --cpus 1 # (a name without a slash is looked up in a kernel)
			try linux remove "$bad"
		done
	) >"$work/said" 2>&1
	# the script's own lines say what was tried
	grep -av '^torture: ' "$work/said" | grep -av -- '-rf.txt --\|^<script>alert(1)<_script>' >"$work/heard"
	tried=$(grep -ac '^torture: status' "$work/said")
	row names "control characters on the terminal" "$tried" "$(grep -ac $'\e' "$work/heard")" ""
	row names "marks of direction on the terminal" "$tried" "$(grep -ac $'\u202e' "$work/heard")" ""
	row names "words that a shell would execute" "$tried" "$(find "$folder" -name 'pwned*' | wc -l)" ""
	row names "panics, internal errors, time-outs" "$tried" \
		"$(grep -acE 'panicked|internal error|^torture: status (4|101|124|134|139)$' "$work/said")" ""
	row names "scripts in pages" "$(find "$folder" -name '*.html' | wc -l)" \
		"$(find "$folder" -name '*.html' -exec grep -al '<script>alert' {} + | wc -l)" ""
	row names "control characters in pages" "$(find "$folder" -name '*.html' | wc -l)" \
		"$(find "$folder" -name '*.html' -exec grep -al $'\e' {} + | wc -l)" ""
fi

printf '\n%-7s %-44s %6s %6s  %s\n' group what times faults note
cat "$table"
printf '\n%d faults\n' "$faults"
[ "$faults" -eq 0 ]
