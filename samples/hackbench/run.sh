#!/bin/sh
# Groups of senders and receivers that pass messages through sockets, as the classic hackbench does: what is recorded as
# samples/hackbench. Wants perf (Debian: linux-perf). $1: messages per pair, 400 by default.
exec perf bench -f simple sched messaging -g 2 -l "${1:-400}"
