#!/bin/sh
# apache with four threads behind one listener, and ab
here=$(pwd)
mkdir -p apache/logs
cp www/index.html apache
cat > apache/httpd.conf <<C
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
Listen 7791
ServerName localhost
PidFile $here/apache/pid
ErrorLog $here/apache/logs/error
User nobody
Group nogroup
DocumentRoot $here/apache
ServerLimit 1
StartServers 1
ThreadsPerChild 4
MaxRequestWorkers 4
MinSpareThreads 1
MaxSpareThreads 4
C
apache2 -d "$here/apache" -f "$here/apache/httpd.conf" -DFOREGROUND & server=$!
sleep .5; ab -q -n 2000 -c 4 http://127.0.0.1:7791/ > /dev/null 2>&1; kill $server; wait
