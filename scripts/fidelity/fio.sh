#!/bin/sh
# three threads that write a file and wait for the disk
mkdir -p fio
fio --name=a --directory=fio --size=8m --rw=randrw --bs=4k --ioengine=psync --numjobs=3 --thread --fsync=16 > /dev/null
