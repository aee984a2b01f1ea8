/* Breakpoints in the memory of sleeping children. */
#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer/engine/ptrace/internal.h"

enum { PLACES = 3, INT3 = 0xcc };

__asm__(".text\n"
	".globl places\nplaces:\n"
	"nop\nnop\nnop\nret\n"
	".skip 16, 0x90\n");

extern const uint8_t places[];

static struct share *share;
static pid_t parent, child;

static pid_t waiting(void)
{
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void end(pid_t *pid)
{
	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	waitpid(*pid, NULL, 0);
	*pid = 0;
}

static int begin(void **state)
{
	(void)state;
	share = mmap(NULL, sizeof(*share), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	parent = waiting();
	child = waiting();
	return share == MAP_FAILED;
}

static int finish(void **state)
{
	(void)state;
	end(&parent);
	end(&child);
	return munmap(share, sizeof(*share));
}

static uint64_t place(unsigned i)
{
	return (uintptr_t)places + i;
}

static struct breakpoints *open_space(pid_t pid)
{
	struct breakpoints *s;
	assert_int_equal(breakpoints_open(pid, share, &s, NULL), 0);
	return s;
}

static void expect_code(const struct breakpoints *s, const uint8_t wanted[PLACES])
{
	uint8_t its[PLACES];
	assert_int_equal(breakpoints_read(s, place(0), its, PLACES), 0);
	assert_memory_equal(its, wanted, PLACES);
}

static const uint8_t changed[PLACES] = {INT3, INT3, INT3};

/* Breakpoints at all places of the parent, and a child forked then. */
static struct breakpoints *changed_parent(void)
{
	const struct use use = {.kind = SITE_ENTRY};
	struct breakpoints *s = open_space(parent), *its = open_space(child);
	for (unsigned i = 0; i < PLACES; i++)
		assert_int_equal(breakpoints_add(s, place(i), places + i, &use), 0);
	expect_code(s, changed);
	assert_int_equal(breakpoints_write(its, place(0), changed, PLACES), 0);
	breakpoints_put(its);
	return s;
}

static uint32_t listed(void)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < SHARE_BYTES; i++)
		n += share->bytes[i].in_use != 0;
	return n;
}

static void a_child_has_its_parents_breakpoints(void **state)
{
	(void)state;
	struct breakpoints *s = changed_parent(), *its;
	assert_int_equal(breakpoints_fork(s, child, &its, NULL), 0);
	expect_code(its, changed);
	assert_int_equal(breakpoints_live(its), PLACES);
	assert_int_equal(listed(), 2 * PLACES);
	breakpoints_restore(its);
	expect_code(its, places);
	expect_code(s, changed);
	breakpoints_restore(s);
	expect_code(s, places);
	assert_int_equal(listed(), 0);
	breakpoints_put(its);
	breakpoints_put(s);
}

static void a_child_without_room_has_none(void **state)
{
	(void)state;
	struct err e = {0};
	struct breakpoints *s = changed_parent(), *its;
	/* The table has room for one more. */
	for (uint32_t i = PLACES; i < SHARE_BYTES - 1; i++)
		share->bytes[i].in_use = 1;
	share->nbytes = SHARE_BYTES;
	assert_int_equal(breakpoints_fork(s, child, &its, &e), -E2BIG);
	assert_non_null(strstr(e.what, "cannot follow"));
	expect_code(its, places);
	expect_code(s, changed);
	assert_int_equal(breakpoints_live(its), 0);
	assert_null(breakpoints_find(its, place(0)));
	assert_int_equal(listed(), SHARE_BYTES - 1);
	/* It can set its own again. */
	const struct use use = {.kind = SITE_ENTRY};
	assert_int_equal(breakpoints_add(its, place(1), places + 1, &use), 0);
	assert_non_null(breakpoints_find(its, place(1)));
	breakpoints_put(its);
	breakpoints_put(s);
}

static void nobody_to_reach(void **state)
{
	(void)state;
	struct breakpoints *s = changed_parent(), *its = s;
	pid_t gone = child;
	end(&child);
	assert_true(breakpoints_fork(s, gone, &its, NULL) < 0);
	assert_null(its);
	breakpoints_put(s);
}

/* Checking one place is enough to notice; what is neither breakpoint nor code was put there by
 * someone else. */
static void what_was_taken_out_comes_in_again(void **state)
{
	static const uint8_t others[PLACES] = {0x90, 0xf4, 0x90};
	static const uint8_t mended[PLACES] = {INT3, 0xf4, INT3};
	(void)state;
	struct breakpoints *s = changed_parent();
	assert_int_equal(breakpoints_mend(s, PLACES), 0);
	assert_int_equal(breakpoints_write(s, place(0), places, PLACES), 0);
	assert_int_equal(breakpoints_mend(s, 1), PLACES);
	expect_code(s, changed);
	assert_int_equal(breakpoints_write(s, place(0), others, PLACES), 0);
	assert_int_equal(breakpoints_mend(s, PLACES), PLACES - 1);
	expect_code(s, mended);
	breakpoints_give_up(s, breakpoints_find(s, place(0)));
	assert_int_equal(breakpoints_mend(s, PLACES), 0);
	breakpoints_put(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(a_child_has_its_parents_breakpoints, begin, finish),
	    cmocka_unit_test_setup_teardown(a_child_without_room_has_none, begin, finish),
	    cmocka_unit_test_setup_teardown(nobody_to_reach, begin, finish),
	    cmocka_unit_test_setup_teardown(what_was_taken_out_comes_in_again, begin, finish),
	};
	return unit_run(tests, NULL, NULL);
}
