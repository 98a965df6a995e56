#!/bin/sh
exec stress-ng -q --pthread 2 --pthread-ops 500 --cyclic 1 --cyclic-ops 200 --poll 2 --poll-ops 2000 -t 3
