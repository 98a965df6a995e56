#!/bin/sh
# three shells at a time
# shellcheck disable=SC2016 # the inner shell is to see $@
seq 400 | xargs -P3 -n4 sh -c 'for i in $@; do expr $i + 1; done | sort -n | tail -n 1' x > /dev/null
