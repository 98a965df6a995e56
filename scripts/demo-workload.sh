#!/bin/sh
# A real workload for the demo: a parallel compile (short-lived tasks, pipes, I/O), a compressor (one long burst) and a
# metronome (sleeps 16 ms, works a little). Some 10 s on two CPUs. Needs gcc, make, gzip.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"; kill $beat 2>/dev/null || :' EXIT INT TERM
cd "$dir"

i=0
while [ $i -lt 24 ]; do
	{
		echo '#include <stdio.h>'
		echo '#include <stdlib.h>'
		f=0
		while [ $f -lt 40 ]; do
			echo "int f${i}_$f(int n){int a[64],s=0;for(int i=0;i<64;i++)a[i]=n*i^$f;for(int i=0;i<n;i++)for(int j=0;j<64;j++)s+=a[(i*j+$f)&63]%(j+1);return s;}"
			f=$((f + 1))
		done
	} >"m$i.c"
	i=$((i + 1))
done
printf 'all: %s\n%%.o: %%.c\n\t@gcc -O2 -c -o $@ $<\n' "$(for n in $(seq 0 23); do printf 'm%d.o ' "$n"; done)" >Makefile

(while :; do sleep 0.016; done) &
beat=$!
head -c 24000000 /dev/urandom | gzip -6 >/dev/null &
gz=$!
make -s -j4
wait $gz
