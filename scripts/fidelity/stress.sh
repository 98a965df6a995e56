#!/bin/sh
exec stress-ng -q --mq 1 --mq-ops 20000 --sem 2 --sem-ops 20000 --pipe 1 --pipe-ops 4000 -t 3
