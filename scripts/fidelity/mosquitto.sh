#!/bin/sh
# a broker, a publisher and two subscribers
mosquitto -p 7792 > /dev/null 2>&1 & broker=$!; sleep .3
mosquitto_sub -p 7792 -t a -C 1500 > /dev/null & mosquitto_sub -p 7792 -t a -C 1500 > /dev/null & sleep .1
seq 1500 | mosquitto_pub -p 7792 -t a -l; sleep .2; kill $broker; wait
