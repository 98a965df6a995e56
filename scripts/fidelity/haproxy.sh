#!/bin/sh
# a proxy between ab and nginx
cat > haproxy.cfg <<C
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 5s
  timeout server 5s
frontend f
  bind 127.0.0.1:7794
  default_backend b
backend b
  server s 127.0.0.1:7778
C
nginx -c "$(pwd)/nginx.conf" & server=$!; haproxy -f haproxy.cfg & proxy=$!
sleep .4; ab -q -n 1500 -c 4 http://127.0.0.1:7794/ > /dev/null 2>&1; kill $proxy $server; wait
