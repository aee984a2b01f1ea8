/* An observer of PyTorch's ops that asks for their inputs and outputs and does nothing with them:
 * what that alone costs. The structure is that of tracer/shim/record/recorder.c. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

enum { FUNCTION, BACKWARD, SCOPES = 10 };

struct callback {
	void **(*start)(void **context, const uint64_t *rf);
	void (*end)(const uint64_t *rf, void *context);
	double probability;
	bool scopes[SCOPES];
	bool inputs, outputs, ids;
};

int observe(void *torch);
int unobserve(void *torch);

static uint64_t handles[2];

static void **start(void **context, const uint64_t *rf)
{
	(void)rf;
	*context = 0;
	return context;
}

static void end(const uint64_t *rf, void *context)
{
	(void)rf, (void)context;
}

/* `torch`: handle of libtorch_cpu (dlopen). 0, or -1 where it has no such function. */
int observe(void *torch)
{
	uint64_t (*add)(struct callback) = (uint64_t(*)(struct callback))dlsym(
	    torch, "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE");
	struct callback c = {
	    .start = start, .end = end, .probability = 1, .inputs = true, .outputs = true};
	if (!add)
		return -1;
	for (unsigned i = 0; i < 2; i++) {
		c.scopes[FUNCTION] = i == 0;
		c.scopes[BACKWARD] = i == 1;
		handles[i] = add(c);
	}
	return 0;
}

int unobserve(void *torch)
{
	void (*leave)(uint64_t) = (void (*)(uint64_t))dlsym(torch, "_ZN2at14removeCallbackEm");
	if (!leave)
		return -1;
	for (unsigned i = 0; i < 2; i++)
		leave(handles[i]);
	return 0;
}
