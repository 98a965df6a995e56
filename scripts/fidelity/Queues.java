// Numbers that go through two queues to four threads.
import java.util.concurrent.ArrayBlockingQueue;

class Queues {
    static volatile long sum;

    static void work(long n) {
        for (int k = 0; k < 20000; k++) sum += k * n;
    }

    public static void main(String[] args) throws Exception {
        var first = new ArrayBlockingQueue<Long>(16);
        var second = new ArrayBlockingQueue<Long>(16);
        var threads = new Thread[4];
        for (int t = 0; t < 4; t++) {
            boolean ends = t >= 2;
            threads[t] = new Thread(() -> {
                try {
                    for (;;) {
                        long n = ends ? second.take() : first.take();
                        if (n >= 0) work(n);
                        if (!ends) second.put(n);
                        if (n < 0) return;
                    }
                } catch (InterruptedException e) {
                    throw new RuntimeException(e);
                }
            });
            threads[t].start();
        }
        for (long n = 0; n < 3000; n++) first.put(n);
        for (int t = 0; t < 2; t++) first.put(-1L);
        for (var thread : threads) thread.join();
    }
}
