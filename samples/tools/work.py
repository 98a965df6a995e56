"""What is recorded as samples/tools: two threads that pass a byte to and fro, a child that sleeps and computes, a change of
nice value and of policy. Some 30 ms, some 250 scheduling events of its own."""

import os
import threading
import time


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def pong(take, give):
    for _ in range(12):
        os.read(take, 1)
        spin(0.0001)
        os.write(give, b"x")


def child():
    for _ in range(4):
        time.sleep(0.002)
        spin(0.001)


if os.fork() == 0:
    child()
    os._exit(0)
there, back = os.pipe(), os.pipe()
thread = threading.Thread(target=pong, args=(there[0], back[1]))
thread.start()
for _ in range(12):
    os.write(there[1], b"x")
    os.read(back[0], 1)
thread.join()
os.setpriority(os.PRIO_PROCESS, 0, 3)
spin(0.002)
for _ in range(3):
    os.sched_yield()
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(7))
time.sleep(0.001)
os.wait()
