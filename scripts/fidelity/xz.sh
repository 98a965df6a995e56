#!/bin/sh
head -c 6000000 big | xz -T2 --block-size=500000 -3 | xz -d -T2 | cat > /dev/null
