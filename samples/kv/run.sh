#!/bin/sh
# A key-value server and its client over loopback, in bursts: what is recorded as samples/kv.
# Wants redis-server and redis-benchmark (Debian: redis-server, redis-tools). $1: rounds, 30 by default.
redis-server --port 17379 --bind 127.0.0.1 --save '' --appendonly no --daemonize no --logfile /dev/null &
server=$!
until redis-cli -p 17379 ping >/dev/null 2>&1; do sleep 0.05; done
round=0
while [ "$round" -lt "${1:-30}" ]; do
    redis-benchmark -p 17379 -q -n 800 -c 8 -t set,get,lpush >/dev/null
    sleep 0.5
    round=$((round + 1))
done
redis-cli -p 17379 shutdown nosave
wait "$server"
