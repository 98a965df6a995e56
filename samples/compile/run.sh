#!/bin/sh
# Two parallel builds of Redis, with -O3 and then with -O1: what is recorded as
# samples/compile. Wants the source folder of Debian's package redis (`apt-get source redis`) as $1.
set -e
cd "$1/src"
make -j4 MALLOC=libc OPTIMIZATION=-O3
make clean
make -j4 MALLOC=libc OPTIMIZATION=-O1
