/* A thread that C starts: it calls a function, and then waits for its end without Python. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

static sem_t called, ending;
static pthread_t thread;

/* Whatever signals come. */
static void wait_for(sem_t *s)
{
	while (sem_wait(s) && errno == EINTR)
		;
}

static void *work(void *f)
{
	((void (*)(void))f)();
	sem_post(&called);
	wait_for(&ending);
	return NULL;
}

int begin(void *f)
{
	sem_init(&called, 0, 0);
	sem_init(&ending, 0, 0);
	int r = pthread_create(&thread, NULL, work, f);
	if (!r)
		wait_for(&called);
	return r;
}

int finish(void)
{
	sem_post(&ending);
	return pthread_join(thread, NULL);
}
