# A pool of three processes, and a queue behind which one more waits.
import multiprocessing as mp


def square(n):
    return sum(k * n for k in range(2000))


def add(queue):
    while queue.get() is not None:
        sum(k * k for k in range(1000))


if __name__ == "__main__":
    queue = mp.Queue(8)
    adder = mp.Process(target=add, args=(queue,))
    adder.start()
    with mp.Pool(3) as pool:
        for value in pool.imap(square, range(600), chunksize=4):
            queue.put(value)
    queue.put(None)
    adder.join()
