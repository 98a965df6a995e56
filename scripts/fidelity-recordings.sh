#!/bin/sh
# Records programs of this host with their pipes and sockets, on two CPUs and on one, and replays each without channels, with
# inferred and with recorded ones, and with recorded ones but without costs or strangers: tables of docs/fidelity.md. Each program is
# recorded three times, for two recordings of one program differ. Needs root, perf, and for some rows redis, nginx with ab, sqlite3,
# ffmpeg with ffplay; what is not there is left out. Usage: scripts/fidelity-recordings.sh [FOLDER]
set -eu
schedlab=$(pwd)/target/release/schedlab
out=${1:-out/fidelity}
mkdir -p "$out/www" "$out/make"
cd "$out"
cat > redis.sh <<'S'
redis-server --port 7777 --save "" --appendonly no > /dev/null & server=$!
sleep .3; redis-benchmark -p 7777 -n 8000 -c 4 -t set,get -q > /dev/null; kill $server; wait
S
echo hello > www/index.html
cat > nginx.conf <<S
worker_processes 1; daemon off; error_log $(pwd)/nginx.log; pid $(pwd)/nginx.pid;
events { worker_connections 64; }
http { access_log off; server { listen 127.0.0.1:7778; root $(pwd)/www; } }
S
cat > nginx.sh <<S
nginx -c $(pwd)/nginx.conf & server=\$!
sleep .3; ab -q -n 3000 -c 4 http://127.0.0.1:7778/ > /dev/null 2>&1; kill \$server; wait
S
cat > sqlite.sh <<'S'
rm -f sqlite.db
(echo "create table t(a, b);"; for i in $(seq 300); do echo "insert into t values($i, 'x');"; done) | sqlite3 sqlite.db
S
echo "head -c 12000000 $schedlab | gzip | gzip -d | md5sum > /dev/null" > gzip.sh
head -c 16000000 "$schedlab" > big
for i in 1 2 3 4 5 6 7 8; do echo "int f$i(int a) { return a * $i; }" > make/f$i.c; done
# four threads behind queues of eight
cat > pipe.c <<'S'
#include <pthread.h>
#define ROOM 8
static struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    int first, nr, items[ROOM];
} queues[3];
static volatile unsigned long sum;
static void work(int us) { for (int i = 0; i < us * 300; i++) sum += i; }
static void put(struct queue *q, int item)
{
    pthread_mutex_lock(&q->lock);
    while (q->nr == ROOM) pthread_cond_wait(&q->emptied, &q->lock);
    q->items[(q->first + q->nr++) % ROOM] = item;
    pthread_cond_signal(&q->filled);
    pthread_mutex_unlock(&q->lock);
}
static int take(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (!q->nr) pthread_cond_wait(&q->filled, &q->lock);
    int item = q->items[q->first];
    q->first = (q->first + 1) % ROOM;
    q->nr--;
    pthread_cond_signal(&q->emptied);
    pthread_mutex_unlock(&q->lock);
    return item;
}
static void *stage(void *number)
{
    long k = (long)number;
    for (int item = 0; item >= 0;) {
        if ((item = take(&queues[k])) >= 0) work(20 + (item * 7 + k * 13) % 40);
        if (k < 2) put(&queues[k + 1], item);
    }
    return 0;
}
int main(void)
{
    pthread_t threads[3];
    for (long k = 0; k < 3; k++) {
        pthread_mutex_init(&queues[k].lock, 0);
        pthread_cond_init(&queues[k].filled, 0);
        pthread_cond_init(&queues[k].emptied, 0);
    }
    for (long k = 0; k < 3; k++) pthread_create(&threads[k], 0, stage, (void *)k);
    for (int item = 0; item < 4000; item++) {
        work(15 + item * 11 % 50);
        put(&queues[0], item);
    }
    put(&queues[0], -1);
    for (int k = 0; k < 3; k++) pthread_join(threads[k], 0);
    return 0;
}
S
cc -O1 -pthread pipe.c -o pipe || echo "pipe: there is no C compiler, left out"
cat > pyq.py <<'S'
import queue
import threading

first, second = queue.Queue(4), queue.Queue(4)


def stage(taken, put, rounds):
    while (item := taken.get()) is not None:
        sum(k * item for k in range(rounds))
        if put:
            put.put(item)
    if put:
        put.put(None)


threads = [threading.Thread(target=stage, args=a) for a in [(first, second, 300), (second, None, 500)]]
[thread.start() for thread in threads]
[first.put(item) for item in [*range(2500), None]]
[thread.join() for thread in threads]
S
# a player without a screen and without sound; its clip is made once
cat > video.sh <<'S'
SDL_VIDEODRIVER=dummy SDL_AUDIODRIVER=dummy exec ffplay -hide_banner -loglevel error -autoexit clip.mp4
S
if command -v ffmpeg > /dev/null; then
    [ -s clip.mp4 ] || ffmpeg -hide_banner -loglevel error -f lavfi -i testsrc2=size=640x360:rate=25:duration=4 \
        -f lavfi -i sine=duration=4 -c:v libx264 -preset fast -c:a aac clip.mp4
fi
printf 'all: f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\n%%.o: %%.c\n\tcc -O2 -c $< -o $@\n' > make/Makefile

recorded=
take() {
    name=$1 needs=$2
    shift 2
    command -v "$needs" > /dev/null || { echo "$name: there is no $needs, left out"; return; }
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
    objects=--objects=locks
    take "pipe+locks-$cpus.$run" ./pipe ./pipe
    take "zstd+locks-$cpus.$run" zstd zstd -q -f -T2 -3 big -o big.zst
    objects=
done; done
for choice in "none" "inferred" "recorded --costs none" "recorded --strangers none" "recorded"; do
    echo "--messages $choice"
    # shellcheck disable=SC2086 # lists of files and options, which are above
    "$schedlab" fidelity $recorded --messages $choice --no-causes --html "$(printf %s "$choice" | tr -d " ").html"
done
