#!/bin/sh
# A key-value server on loopback, and a client with four connections, each of which asks again when it has its answer.
# Wants redis-server and redis-benchmark (Debian: redis-server, redis-tools). $1: requests of each kind, 3,000 by default.
redis-server --port 17380 --bind 127.0.0.1 --save '' --appendonly no --daemonize no --logfile /dev/null &
server=$!
until redis-cli -p 17380 ping >/dev/null 2>&1; do sleep 0.05; done
redis-benchmark -p 17380 -q -n "${1:-3000}" -c 4 -t set,get >/dev/null
redis-cli -p 17380 shutdown nosave
wait "$server"
