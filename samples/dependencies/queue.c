// A bounded queue: one mutex, two conditions, several producers and consumers. With several waiters a signal at a condition
// waits in glibc for those who leave it, while it holds the mutex. Usage: queue PRODUCERS CONSUMERS ITEMS
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { ROOM = 4, THREADS_MAX = 64 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static long inside, left;

static void compute(long us)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static void *produce(void *items)
{
	for (long item = 0; item < (long)items; item++) {
		compute(30);
		pthread_mutex_lock(&mutex);
		while (inside == ROOM)
			pthread_cond_wait(&not_full, &mutex);
		inside++;
		pthread_cond_signal(&not_empty);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void *consume(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&mutex);
		while (inside == 0 && left > 0)
			pthread_cond_wait(&not_empty, &mutex);
		if (inside == 0) {
			pthread_mutex_unlock(&mutex);
			return unused;
		}
		inside--;
		if (--left == 0)
			pthread_cond_broadcast(&not_empty);
		pthread_cond_signal(&not_full);
		pthread_mutex_unlock(&mutex);
		compute(60);
	}
}

int main(int nr_arguments, char **arguments)
{
	if (nr_arguments != 4)
		return 2;
	int producers = atoi(arguments[1]), consumers = atoi(arguments[2]);
	long items = atol(arguments[3]);
	if (producers < 0 || consumers < 0 || producers + consumers > THREADS_MAX)
		return 2;
	left = producers * items;
	pthread_t threads[THREADS_MAX];
	for (int i = 0; i < producers + consumers; i++)
		pthread_create(&threads[i], NULL, i < producers ? produce : consume, i < producers ? (void *)items : NULL);
	for (int i = 0; i < producers + consumers; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
