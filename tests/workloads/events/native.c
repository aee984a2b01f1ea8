/* What a thread without a Python frame calls, and one with. `relu` is at::_ops::relu::call(const at::Tensor &),
 * whose result is returned through a hidden pointer (Itanium C++ ABI, 3.1.3). */
#include <pthread.h>

typedef void relu_fn(void **result, void **self);

static struct {
	relu_fn *relu;
	void *tensor;
} given;

static void *run(void *unused)
{
	void *result = unused;
	given.relu(&result, &given.tensor); /* CALL */
	return result;
}

void in_thread(relu_fn *relu, void *tensor)
{
	pthread_t thread;
	given.relu = relu;
	given.tensor = tensor;
	for (int i = 0; i < 100 && !pthread_create(&thread, NULL, run, NULL); i++)
		pthread_join(thread, NULL);
}

void in_place(relu_fn *relu, void *tensor)
{
	given.relu = relu;
	given.tensor = tensor;
	run(NULL); /* PLACE */
}
