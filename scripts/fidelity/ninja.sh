#!/bin/sh
rm -rf ninja; mkdir ninja; cd ninja || exit
# shellcheck disable=SC2016 # ninja is to see $in
printf 'rule cc\n  command = cc -O2 -c $in -o $out\n' > build.ninja
for i in 1 2 3 4 5 6 7 8 9 10; do
    printf '#include <stdio.h>\nint f%d(int a) { printf("%%d", a); return a * %d; }\n' $i $i > f$i.c
    printf 'build f%d.o: cc f%d.c\n' $i $i >> build.ninja
done
ninja -j3 > /dev/null
