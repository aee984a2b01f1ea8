#include "tracer/shim/extension/modes_thread_end.h"

#include <dlfcn.h>
#include <stdint.h>

#include "tracer/shim/extension/modes_call.h"

/* std::shared_ptr<c10::SafePyObject>; the first word of that is the object of Python
 * (c10/core/SafePyObject.h). */
struct shared {
	object *const *object;
	void *count;
};

/* at::impl::PythonTorchFunctionTLS (ATen/PythonTorchFunctionTLS.h) and
 * c10::impl::TorchDispatchModeTLS, all of them static: what is returned by value comes through
 * memory. Before 2.0 a stack that is not empty has a mode in Python, which asks those on it. */
static struct stack {
	const char *len_name, *at_name, *pop_name, *swap_name;
	int64_t (*len)(void);
	const struct shared *(*at)(int64_t);
	struct shared *(*pop)(struct shared *);
	void (*swap)(struct shared *);
} stacks[] = {
    {"_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv",
     "_ZN2at4impl22PythonTorchFunctionTLS12get_stack_atEl",
     "_ZN2at4impl22PythonTorchFunctionTLS9pop_stackEv",
     "_ZN2at4impl22PythonTorchFunctionTLS9swap_modeERSt10shared_ptrIN3c1012SafePyObjectEE", NULL,
     NULL, NULL, NULL},
    {"_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv",
     "_ZN3c104impl20TorchDispatchModeTLS12get_stack_atEl",
     "_ZN3c104impl20TorchDispatchModeTLS9pop_stackEv",
     "_ZN3c104impl20TorchDispatchModeTLS9swap_modeERSt10shared_ptrINS_12SafePyObjectEE", NULL, NULL,
     NULL, NULL},
};
enum { STACKS = sizeof(stacks) / sizeof(stacks[0]) };

extern int __cxa_thread_atexit_impl(void (*f)(void *), void *arg, void *dso); /* glibc 2.18 */

/* What is popped is never given back: the mode is there for as long as the process. */
static void thread_ends(void *unused)
{
	(void)unused;
	for (int i = 0; i < STACKS; i++) {
		const struct stack *s = &stacks[i];
		struct shared asking = {0}, last;
		if (!s->len || !s->at || !s->pop || s->len() != 1 ||
		    !modes_is_mode(*s->at(0)->object))
			continue;
		if (s->swap)
			s->swap(&asking);
		s->pop(&last);
	}
}

void modes_thread_end_find(void *torch)
{
	for (int i = 0; i < STACKS; i++) {
		struct stack *s = &stacks[i];
		s->len = (int64_t(*)(void))dlsym(torch, s->len_name);
		s->at = (const struct shared *(*)(int64_t))dlsym(torch, s->at_name);
		s->swap = (void (*)(struct shared *))dlsym(torch, s->swap_name);
		s->pop = (struct shared * (*)(struct shared *)) dlsym(torch, s->pop_name);
	}
}

/* What a thread has registered last goes first. A stack registers itself where it is first looked
 * at, which is done here for both: one that another level uses later would else be gone before
 * ours. */
void modes_thread_end_watch(void)
{
	static __thread bool watched;
	static char dso;
	if (watched)
		return;
	watched = true;
	for (int i = 0; i < STACKS; i++)
		if (stacks[i].len)
			stacks[i].len();
	__cxa_thread_atexit_impl(thread_ends, NULL, &dso);
}
