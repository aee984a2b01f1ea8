#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/system.h"

enum { PAGES = 4, PAGE = 4096 };

/* A mapping of a file of PAGES pages of 'x', which then loses all but the first. */
static const char *cut_file(void)
{
	char text[PAGES * PAGE];
	int fd = memfd_create("cut", MFD_CLOEXEC);
	memset(text, 'x', sizeof(text));
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	const char *at = mmap(NULL, sizeof(text), PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(at != MAP_FAILED);
	assert_int_equal(ftruncate(fd, PAGE), 0);
	close(fd);
	return at;
}

static void what_a_file_lost_reads_as_zeros(void **state)
{
	(void)state;
	bus_guard(NULL);
	const char *at = cut_file();
	assert_int_equal(at[PAGE - 1], 'x');
	assert_false(bus_read_zeros());
	assert_int_equal(at[2 * PAGE + 7], 0);
	assert_true(bus_read_zeros());
	assert_int_equal(at[PAGE], 0);
	munmap((void *)at, PAGES * PAGE);
}

static void called(int sig)
{
	(void)sig;
	_exit(7);
}

static int status_of_child(void (*otherwise)(int))
{
	int status = 0;
	pid_t child = fork();
	if (!child) {
		bus_guard(otherwise);
		raise(SIGBUS);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void other_causes_end_the_process(void **state)
{
	(void)state;
	int status = status_of_child(NULL);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	status = status_of_child(called);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_file_lost_reads_as_zeros),
	    cmocka_unit_test(other_causes_end_the_process),
	};
	return unit_run(tests, NULL, NULL);
}
