#include "tests/unit/libtorch.h"

#include <errno.h>
#include <stdbool.h>

#include "replay/capture/capture_files.h"
#include "symbolizer/ops/internal.h"
#include "symbolizer/ops/ops.h"
#include "symbolizer/target/elf.h"
#include "tests/unit/self_source.h"
#include "tracer/capture/internal.h"

enum { UINT8 = 0, PID = 77 };
static const size_t plenty = 1 << 30;
static unsigned char memory[4096];

/* What `more` finds in the live process. */
static void is_conjugate(void *ctx, const struct tensor *t, struct source_tensor *out)
{
	(void)ctx;
	out->conj = t->impl == 5;
	out->has_storage_bytes = true;
	out->storage_bytes = sizeof(memory);
}

static const struct source live = {.read = source_read_self, .more = is_conjugate};

/* `n` bytes of memory[], at `offset` of the storage at `base`. */
static struct tensor bytes(size_t base, int64_t offset, int64_t *n)
{
	static int64_t one = 1;
	return (struct tensor){
	    .meta = {.dtype = UINT8, .ndim = 1, .numel = *n, .shape = n, .stride = &one},
	    .storage_offset = offset,
	    .data_ptr = (uint64_t)(uintptr_t)memory + base + (uint64_t)offset,
	    .storage = base + 1};
}

static int fill(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(memory); i++)
		memory[i] = (unsigned char)(i % 251);
	return 0;
}

static void kept_tensors_are_as_they_were(void **state)
{
	(void)state;
	int64_t n = 100, m = 10;
	struct tensor a = bytes(50, 20, &n), b = bytes(1000, 0, &m), *x, *y;
	struct kept k = {0};
	unsigned char was[sizeof(memory)], now[200];
	struct source_tensor more = {0};
	memcpy(was, memory, sizeof(was));
	b.impl = 5;
	assert_int_equal(kept_add(&k, &a, &live, plenty, &x), 0);
	assert_int_equal(kept_add(&k, &b, &live, plenty, &y), 0);
	assert_int_equal(k.bytes, 120 + 10);
	memset(memory, 0xee, sizeof(memory));
	n = m = 1; /* the event is gone as well */
	assert_int_equal(x->meta.shape[0], 100);
	assert_int_equal(y->meta.shape[0], 10);
	const struct source s = kept_source(&k);
	assert_int_equal(s.read(s.ctx, (uint64_t)(uintptr_t)memory + 50, now, 120), 0);
	assert_memory_equal(now, was + 50, 120);
	assert_int_equal(s.read(s.ctx, (uint64_t)(uintptr_t)memory + 1002, now, 8), 0);
	assert_memory_equal(now, was + 1002, 8);
	assert_int_equal(s.read(s.ctx, (uint64_t)(uintptr_t)memory + 50, now, 121), -EFAULT);
	s.more(s.ctx, x, &more);
	assert_false(more.conj || more.has_storage_bytes);
	s.more(s.ctx, y, &more);
	assert_true(more.conj);
	kept_free(&k);
}

/* The allocator reuses the address. */
static void what_lay_in_the_same_place_is_not_mixed(void **state)
{
	(void)state;
	int64_t n = 100, m = 50;
	struct tensor a = bytes(200, 0, &n), b = bytes(250, 0, &m), *x;
	struct kept k = {0};
	assert_int_equal(kept_add(&k, &a, &live, plenty, &x), 0);
	assert_int_equal(kept_add(&k, &b, &live, plenty, &x), 0);
	memory[299] ^= 1;
	assert_int_equal(kept_add(&k, &b, &live, plenty, &x), -EEXIST);
	assert_int_equal(kept_add(&k, &b, &live, 49, &x), -EFBIG);
	b.meta.unknown = TENSOR_NO_SHAPE;
	assert_int_equal(kept_add(&k, &b, &live, plenty, &x), -ENOTSUP);
	assert_int_equal(k.bytes, 150);
	kept_free(&k);
}

static struct captured_call *add_call(struct capture_calls *c, uint64_t id)
{
	struct captured_call *call = capture_calls_add(c, id);
	assert_non_null(call);
	call->call.pid = PID;
	return call;
}

static void nodes_lead_to_their_calls(void **state)
{
	(void)state;
	static struct capture_calls c;
	const struct grad_edge at = {0x1000, 5}, later = {0x1000, 6}, none = {0};
	struct captured_call *a = add_call(&c, 1), *b = add_call(&c, 2);
	assert_int_equal(capture_calls_await(&c, a, &at, true), 0);
	assert_int_equal(capture_calls_await(&c, a, &at, false), 0); /* known already */
	assert_int_equal(capture_calls_await(&c, b, &at, false), 0);
	assert_int_equal(a->nnodes, 1);
	struct call_node *n = capture_calls_awaiting(&c, PID, &at, NULL);
	assert_ptr_equal(n->call, b);
	assert_false(n->gave_result);
	n = capture_calls_awaiting(&c, PID, &at, n);
	assert_ptr_equal(n->call, a);
	assert_true(n->gave_result);
	assert_null(capture_calls_awaiting(&c, PID, &at, n));
	assert_null(capture_calls_awaiting(&c, PID, &later, NULL));
	assert_null(capture_calls_awaiting(&c, PID + 1, &at, NULL)); /* of a forked child */
	assert_null(capture_calls_awaiting(&c, PID, &none, NULL));
	capture_calls_ran(&c, n);
	assert_null(a->nodes);
	capture_calls_drop(&c, a);
	assert_int_equal(c.unfinished, 0);
	assert_int_equal(capture_calls_await(&c, b, &later, false), 0);
	capture_calls_ran(&c, capture_calls_awaiting(&c, PID, &at, NULL));
	capture_calls_drop(&c, b);
	assert_int_equal(c.unfinished, 1);
	assert_null(capture_calls_awaiting(&c, PID, &later, NULL));
	capture_calls_free(&c);
}

static void a_call_has_so_many_nodes(void **state)
{
	(void)state;
	static struct capture_calls c;
	struct captured_call *a = add_call(&c, 1);
	struct grad_edge at = {0, 1};
	for (unsigned i = 0; i < CAPTURE_NODES_MAX; i++) {
		at.node += 64;
		assert_int_equal(capture_calls_await(&c, a, &at, false), 0);
	}
	assert_int_equal(capture_calls_await(&c, a, &at, false), 0);
	at.node += 64;
	assert_int_equal(capture_calls_await(&c, a, &at, false), -E2BIG);
	capture_calls_free(&c);
}

static void one_gradient_for_each_argument(void **state)
{
	(void)state;
	int64_t n = 4;
	struct tensor t[2] = {bytes(0, 0, &n), bytes(64, 0, &n)};
	struct call_input list[3] = {{.name = "0", .edge = {0x10, 1}},
				     {.name = "1", .edge = {0x20, 2}},
				     {.name = "bias", .edge = {0x20, 2}}};
	struct call_inputs in = {.list = list, .n = 3};
	struct call_input *at;
	struct value *v;
	const char *const *names;
	assert_false(call_inputs_grads(&in, &v, &names));
	assert_int_equal(call_inputs_at(&in, &(struct grad_edge){0x10, 2}, &at), 0);
	assert_int_equal(call_inputs_at(&in, &(struct grad_edge){0x20, 2}, &at), 2);
	assert_int_equal(call_inputs_at(&in, &(struct grad_edge){0x10, 1}, &at), 1);
	assert_ptr_equal(at, &list[0]);
	call_inputs_keep(&in, at, &t[0], &live, plenty);
	assert_int_equal(in.trouble, GRADS_FINE);
	assert_true(call_inputs_grads(&in, &v, &names));
	assert_int_equal(v[0].kind, VALUE_TENSOR);
	assert_int_equal(v[0].tensor->data_ptr, t[0].data_ptr);
	assert_int_equal(v[1].kind, VALUE_NONE);
	assert_string_equal(names[2], "bias");
	call_inputs_keep(&in, &list[1], &t[1], &live, 3); /* too large */
	assert_int_equal(in.trouble, GRADS_LOST);
	in.trouble = GRADS_FINE;
	call_inputs_keep(&in, at, &t[1], &live, plenty); /* kept twice */
	assert_int_equal(in.trouble, GRADS_SUMMED);
	call_inputs_free(&in);
}

/* A complete function whose end can be probed; the capture tests of gradients show that it is the
 * right one. */
static void function_of(const struct libtorch *l)
{
	struct elf_file *f;
	struct callees *c;
	uint64_t at = 0, size = 0, start = 0;
	size_t len = 0;
	assert_int_equal(elf_file_open(l->path, &f, NULL), 0);
	assert_int_equal(callees_open(f, &c), 0);
	assert_true(grads_function_find(f, c, &at, &size));
	const struct return_sites_ops ops = callees_ops(c);
	assert_non_null(ops.piece(ops.arg, at, &start, &len));
	assert_int_equal(start, at);
	assert_int_equal(len, size);
	struct return_sites_ctx *x = return_sites_new(&ops);
	struct func_facts facts;
	assert_int_equal(return_sites_analyze(x, elf_bytes(f, at, size), size, at, &facts), 0);
	print_message("# %s: %#lx, %lu bytes, exit kind %d\n", l->path, at, size, facts.exit_kind);
	assert_int_not_equal(facts.exit_kind, EXIT_NONE);
	return_sites_free(x);
	callees_close(c);
	elf_file_close(f);
}

static void the_function_is_found(void **state)
{
	(void)state;
	libtorch_each(function_of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(kept_tensors_are_as_they_were, fill),
	    cmocka_unit_test_setup(what_lay_in_the_same_place_is_not_mixed, fill),
	    cmocka_unit_test(nodes_lead_to_their_calls),
	    cmocka_unit_test(a_call_has_so_many_nodes),
	    cmocka_unit_test_setup(one_gradient_for_each_argument, fill),
	    cmocka_unit_test(the_function_is_found),
	};
	return unit_run(tests, NULL, NULL);
}
