#!/bin/sh
# Records programs of this host with their pipes and sockets, on two CPUs and on one, and replays each without channels, with
# inferred and with recorded ones, and with recorded ones but without costs or strangers: tables of docs/fidelity.md. Each program is
# recorded three times, for two recordings of one program differ. Needs root; what is not there is left out (Debian: linux-perf,
# redis-server, nginx with apache2-utils, sqlite3, ffmpeg, mpv, memcached with libmemcached-tools, postgresql, nodejs, a JDK, golang,
# sysbench, zstd, git, gcc, python3; apache2, haproxy, mosquitto with its clients, iperf3, fio, pbzip2, xz-utils, gstreamer1.0-tools,
# erlang-base, ruby, perl, ninja-build, rsync, stress-ng). Usage: scripts/fidelity-recordings.sh [FOLDER [PROGRAM...]]
set -eu
root=$(pwd)
schedlab=$root/target/release/schedlab
out=${1:-out/fidelity}
[ $# = 0 ] || shift
wanted=" $* "
mkdir -p "$out/www" "$out/make"
cp scripts/fidelity/* "$out"
export ROOT="$root"
cd "$out"
there() { command -v "$1" > /dev/null; }

cat > redis.sh <<'E'
redis-server --port 7777 --save "" --appendonly no > /dev/null & server=$!
sleep .3; redis-benchmark -p 7777 -n 8000 -c 4 -t set,get -q > /dev/null; kill $server; wait
E
echo hello > www/index.html
cat > nginx.conf <<E
worker_processes 1; daemon off; error_log $(pwd)/nginx.log; pid $(pwd)/nginx.pid;
events { worker_connections 64; }
http { access_log off; server { listen 127.0.0.1:7778; root $(pwd)/www; } }
E
cat > nginx.sh <<E
nginx -c $(pwd)/nginx.conf & server=\$!
sleep .3; ab -q -n 3000 -c 4 http://127.0.0.1:7778/ > /dev/null 2>&1; kill \$server; wait
E
cat > sqlite.sh <<'E'
rm -f sqlite.db
(echo "create table t(a, b);"; for i in $(seq 300); do echo "insert into t values($i, 'x');"; done) | sqlite3 sqlite.db
E
echo "head -c 12000000 $schedlab | gzip | gzip -d | md5sum > /dev/null" > gzip.sh
head -c 16000000 "$schedlab" > big
echo "tar -c big | zstd -q -T2 | cat > /dev/null" > tarzstd.sh
echo "seq 300000 | sort -R --parallel=2 | uniq | tail -n 1 > /dev/null" > sort.sh
echo "rm -rf clone; git clone -q --no-local $root clone" > git.sh
cat > memcached.sh <<'E'
memcached -u root -p 7781 -t 2 & server=$!
sleep .3; memcslap --servers=127.0.0.1:7781 --concurrency=4 --execute-number=700 > /dev/null; kill $server; wait
E
for i in 1 2 3 4 5 6 7 8; do echo "int f$i(int a) { return a * $i; }" > make/f$i.c; done
printf 'all: f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\n%%.o: %%.c\n\tcc -O2 -c $< -o $@\n' > make/Makefile
# a player without a screen and without sound; its clip is made once
cat > video.sh <<'E'
SDL_VIDEODRIVER=dummy SDL_AUDIODRIVER=dummy exec ffplay -hide_banner -loglevel error -autoexit clip.mp4
E
if there ffmpeg; then
    [ -s clip.mp4 ] || ffmpeg -hide_banner -loglevel error -f lavfi -i testsrc2=size=640x360:rate=25:duration=4 \
        -f lavfi -i sine=duration=4 -c:v libx264 -preset fast -c:a aac clip.mp4
fi
if there cc; then cc -O1 -pthread pipe.c -o pipe; fi
if there javac; then javac Queues.java; fi
if there go; then go build -o ring ring.go; fi
# a database needs a user who is not root, and a folder that is the user's
if there initdb && there pgbench && id postgres > /dev/null 2>&1; then
    base=$(mktemp -d)
    trap 'rm -rf "$base"' EXIT
    chown postgres "$base"
    as="setpriv --reuid postgres --regid postgres --clear-groups"
    (
        cd "$base"
        $as initdb -D data -A trust > /dev/null
        $as postgres -D data -k "$base" -p 7779 -F > /dev/null 2>&1 &
        sleep 2
        $as pgbench -h "$base" -p 7779 -i -q postgres > /dev/null 2>&1
        kill $!
        wait
    )
    cat > postgres.sh <<E
cd $base
$as postgres -D data -k $base -p 7779 -F > /dev/null 2>&1 & server=\$!
sleep 1; $as pgbench -h $base -p 7779 -S -c 4 -j 4 -t 300 postgres > /dev/null 2>&1; kill \$server; wait
E
fi

recorded=
take() {
    name=$1 needs=$2
    shift 2
    [ "$wanted" = "  " ] || case $wanted in *" ${name%-*} "*) ;; *) return 0 ;; esac
    there "$needs" || { echo "$name: there is no $needs, left out"; return; }
    # shellcheck disable=SC2086 # $bind is words or nothing
    "$schedlab" record "${objects:---objects}" -o "$name.dat" -- $bind "$@" > "$name.log" 2>&1 || { cat "$name.log"; return; }
    recorded="$recorded $name.dat"
}
for run in 1 2 3; do for cpus in 2 1; do
    bind=; [ $cpus = 1 ] && bind="taskset -c 0"
    take "sockets-$cpus.$run" perf perf bench sched messaging -g 1 -l 100
    take "pipes-$cpus.$run" perf perf bench sched messaging -p -g 1 -l 100
    take "threads-$cpus.$run" perf perf bench sched messaging -t -g 1 -l 100
    take "turns-$cpus.$run" perf perf bench sched pipe -l 10000
    take "gzip-$cpus.$run" gzip sh gzip.sh
    rm -f make/*.o
    take "make-$cpus.$run" make make -s -C make -j4
    take "redis-$cpus.$run" redis-server sh redis.sh
    take "nginx-$cpus.$run" ab sh nginx.sh
    take "sqlite-$cpus.$run" sqlite3 sh sqlite.sh
    take "pipe-$cpus.$run" ./pipe ./pipe
    take "pyq-$cpus.$run" python3 python3 pyq.py
    take "video-$cpus.$run" ffplay sh video.sh
    take "mpv-$cpus.$run" mpv mpv --no-config --really-quiet --vo=null --ao=null clip.mp4
    take "aio-$cpus.$run" python3 python3 aio.py
    take "mp-$cpus.$run" python3 python3 mp.py
    take "node-$cpus.$run" node node workers.js
    take "java-$cpus.$run" javac java -cp . Queues
    take "go-$cpus.$run" ./ring ./ring
    take "git-$cpus.$run" git sh git.sh
    take "sort-$cpus.$run" sort sh sort.sh
    take "tarzstd-$cpus.$run" zstd sh tarzstd.sh
    take "sysbench-$cpus.$run" sysbench sysbench threads --threads=4 --time=1 run
    take "memcached-$cpus.$run" memcslap sh memcached.sh
    [ ! -f postgres.sh ] || take "postgres-$cpus.$run" pgbench sh postgres.sh
    # programs that nobody had looked at before they were replayed
    take "apache-$cpus.$run" apache2 sh apache.sh
    take "erlang-$cpus.$run" erl sh erlang.sh
    take "fio-$cpus.$run" fio sh fio.sh
    take "gst-$cpus.$run" gst-launch-1.0 sh gst.sh
    take "haproxy-$cpus.$run" haproxy sh haproxy.sh
    take "iperf-$cpus.$run" iperf3 sh iperf.sh
    take "mosquitto-$cpus.$run" mosquitto sh mosquitto.sh
    take "ninja-$cpus.$run" ninja sh ninja.sh
    take "pbzip2-$cpus.$run" pbzip2 sh pbzip2.sh
    take "perl-$cpus.$run" perl perl queue.pl
    take "rsync-$cpus.$run" rsync sh rsync.sh
    take "ruby-$cpus.$run" ruby ruby queue.rb
    take "stress-$cpus.$run" stress-ng sh stress.sh
    take "stress-threads-$cpus.$run" stress-ng sh threads.sh
    take "x264-$cpus.$run" ffmpeg sh x264.sh
    take "xargs-$cpus.$run" xargs sh xargs.sh
    take "xz-$cpus.$run" xz sh xz.sh
    objects=--objects=locks
    take "pipe+locks-$cpus.$run" ./pipe ./pipe
    take "zstd+locks-$cpus.$run" zstd zstd -q -f -T2 -3 big -o big.zst
    # these are slower by so much that they are recorded if they are named alone
    if [ "$wanted" != "  " ]; then
        take "apache+locks-$cpus.$run" apache2 sh apache.sh
        take "java+locks-$cpus.$run" javac java -cp . Queues
        take "mp+locks-$cpus.$run" python3 python3 mp.py
        take "node+locks-$cpus.$run" node node workers.js
        take "perl+locks-$cpus.$run" perl perl queue.pl
        take "pyq+locks-$cpus.$run" python3 python3 pyq.py
        take "ruby+locks-$cpus.$run" ruby ruby queue.rb
        take "sysbench+locks-$cpus.$run" sysbench sysbench threads --threads=4 --time=1 run
        take "x264+locks-$cpus.$run" ffmpeg sh x264.sh
    fi
    objects=
done; done
for choice in "none" "inferred" "recorded --costs none" "recorded --strangers none" "recorded --affinity none" "recorded --seeds 9"; do
    echo "--messages $choice"
    # shellcheck disable=SC2086 # lists of files and options, which are above
    "$schedlab" fidelity $recorded --messages $choice --no-causes --html "$(printf %s "$choice" | tr -d " ").html" \
        --json "$(printf %s "$choice" | tr -d " ").json"
done
