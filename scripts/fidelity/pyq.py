# Three threads behind two queues of four.
import queue
import threading

first, second = queue.Queue(4), queue.Queue(4)


def stage(taken, put, rounds):
    while (item := taken.get()) is not None:
        sum(k * item for k in range(rounds))
        if put:
            put.put(item)
    if put:
        put.put(None)


threads = [threading.Thread(target=stage, args=a) for a in [(first, second, 300), (second, None, 500)]]
[thread.start() for thread in threads]
[first.put(item) for item in [*range(2500), None]]
[thread.join() for thread in threads]
