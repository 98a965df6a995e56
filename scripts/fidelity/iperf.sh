#!/bin/sh
# two streams of TCP over loopback
iperf3 -s -1 -p 7790 > /dev/null & sleep .2; iperf3 -c 127.0.0.1 -p 7790 -n 600M -P 2 > /dev/null; wait
