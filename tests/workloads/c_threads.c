/* A thread that C starts: it calls a function, and then waits for its end without Python. */
#include <pthread.h>
#include <semaphore.h>

static sem_t called, ending;
static pthread_t thread;

static void *work(void *f)
{
	((void (*)(void))f)();
	sem_post(&called);
	sem_wait(&ending);
	return NULL;
}

int begin(void *f)
{
	sem_init(&called, 0, 0);
	sem_init(&ending, 0, 0);
	int r = pthread_create(&thread, NULL, work, f);
	return r ? r : sem_wait(&called);
}

int finish(void)
{
	sem_post(&ending);
	return pthread_join(thread, NULL);
}
