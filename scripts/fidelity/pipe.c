// Four threads behind queues of eight, each a mutex and two conditions.
#include <pthread.h>
#define ROOM 8
static struct queue {
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    int first, nr, items[ROOM];
} queues[3];
static volatile unsigned long sum;
static void work(int us) { for (int i = 0; i < us * 300; i++) sum += i; }
static void put(struct queue *q, int item)
{
    pthread_mutex_lock(&q->lock);
    while (q->nr == ROOM) pthread_cond_wait(&q->emptied, &q->lock);
    q->items[(q->first + q->nr++) % ROOM] = item;
    pthread_cond_signal(&q->filled);
    pthread_mutex_unlock(&q->lock);
}
static int take(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    while (!q->nr) pthread_cond_wait(&q->filled, &q->lock);
    int item = q->items[q->first];
    q->first = (q->first + 1) % ROOM;
    q->nr--;
    pthread_cond_signal(&q->emptied);
    pthread_mutex_unlock(&q->lock);
    return item;
}
static void *stage(void *number)
{
    long k = (long)number;
    for (int item = 0; item >= 0;) {
        if ((item = take(&queues[k])) >= 0) work(20 + (item * 7 + k * 13) % 40);
        if (k < 2) put(&queues[k + 1], item);
    }
    return 0;
}
int main(void)
{
    pthread_t threads[3];
    for (long k = 0; k < 3; k++) {
        pthread_mutex_init(&queues[k].lock, 0);
        pthread_cond_init(&queues[k].filled, 0);
        pthread_cond_init(&queues[k].emptied, 0);
    }
    for (long k = 0; k < 3; k++) pthread_create(&threads[k], 0, stage, (void *)k);
    for (int item = 0; item < 4000; item++) {
        work(15 + item * 11 % 50);
        put(&queues[0], item);
    }
    put(&queues[0], -1);
    for (int k = 0; k < 3; k++) pthread_join(threads[k], 0);
    return 0;
}
