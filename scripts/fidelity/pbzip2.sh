#!/bin/sh
head -c 6000000 big | pbzip2 -p2 -c | pbzip2 -d -p2 -c > /dev/null
