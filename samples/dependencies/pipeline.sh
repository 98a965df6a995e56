#!/bin/sh
# A producer, two stages and a consumer, joined by pipes. $1: lines, 1,500,000 by default.
seq 1 "${1:-1500000}" | gzip -6 | gzip -dc | md5sum >/dev/null
