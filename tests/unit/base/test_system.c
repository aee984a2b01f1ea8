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

static void one_clock_for_all_processes(void **state)
{
	uint8_t own[16], other[16] = {0}, none[16] = {0};
	int fds[2], status;
	(void)state;
	clock_identify(own);
	assert_memory_not_equal(own, none, sizeof(own));
	assert_int_equal(pipe(fds), 0);
	pid_t child = fork();
	if (!child) {
		clock_identify(other);
		_exit(write(fds[1], other, sizeof(other)) != sizeof(other));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(read(fds[0], other, sizeof(other)), sizeof(other));
	assert_memory_equal(own, other, sizeof(own));
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_file_lost_reads_as_zeros),
	    cmocka_unit_test(other_causes_end_the_process),
	    cmocka_unit_test(one_clock_for_all_processes),
	};
	return unit_run(tests, NULL, NULL);
}
