/* How the shim handles ditrace's answer: it accepts memory of the full size that is sealed, or
 * nothing, and leaks no descriptor; and whom it takes for ditrace. */
#define _GNU_SOURCE

#include "tests/unit/unit.h"

#include <sys/wait.h>

#include "tests/unit/shim_answers.h"
#include "tracer/shim/answer.c"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static const uint64_t size = sizeof(struct shim_share);

static struct said good(void)
{
	return (struct said){
	    .len = sizeof(struct shim_answer), .nfds = 1, .fd = {said_memory(size, SEALS)}};
}

/* Whether the answer is accepted. */
static bool takes(const struct said *s)
{
	int sock[2];
	unsigned before = said_open() - s->nfds;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock), 0);
	said_send(sock[0], s);
	close(sock[0]);
	int memory = answer_receive(sock[1]);
	close(sock[1]);
	if (memory >= 0)
		close(memory);
	assert_int_equal(said_open(), before);
	return memory >= 0;
}

static bool takes_memory(uint64_t bytes, int seals)
{
	struct said s = {.len = sizeof(struct shim_answer), .nfds = 1};
	s.fd[0] = said_memory(bytes, seals);
	assert_true(s.fd[0] >= 0);
	return takes(&s);
}

static void test_words(void **state)
{
	struct said s = good();
	(void)state;
	assert_true(takes(&s));
	s = good();
	s.answer.code = -ENOENT;
	assert_false(takes(&s));
	s = good();
	s.len--;
	assert_false(takes(&s));
	s = (struct said){.len = sizeof(s.answer)};
	assert_false(takes(&s));
	s.len = 0;
	assert_false(takes(&s));
}

static void test_memory(void **state)
{
	(void)state;
	assert_true(takes_memory(size, F_SEAL_SHRINK));
	assert_false(takes_memory(size, 0));
	assert_false(takes_memory(size, F_SEAL_GROW));
	assert_false(takes_memory(size - 4096, SEALS));
	assert_false(takes_memory(0, SEALS));
	struct said s = good();
	close(s.fd[0]);
	s.fd[0] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	assert_false(takes(&s));
}

/* More than one descriptor is rejected. */
static void test_descriptors(void **state)
{
	(void)state;
	for (unsigned n = 2; n <= SAID_FDS; n++) {
		struct said s = good();
		for (s.nfds = 1; s.nfds < n; s.nfds++)
			s.fd[s.nfds] = said_memory(size, SEALS);
		assert_false(takes(&s));
	}
}

static bool is_trusted_by(uid_t uid, int fd)
{
	pid_t child = fork();
	int status;
	if (!child)
		_exit((uid && setresuid(uid, uid, uid)) || !answer_is_trusted(fd, NULL));
	return waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* The peer of a pair is who has made it. */
static void test_trust(void **state)
{
	enum { PLAIN = 65534, OTHER = 65533 };
	int own[2], plain[2], pipe_ends[2];
	pid_t peer = 0;
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, own), 0);
	assert_true(answer_is_trusted(own[0], &peer));
	assert_int_equal(peer, getpid());
	assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
	assert_false(answer_is_trusted(pipe_ends[0], NULL));
	if (geteuid())
		skip();
	assert_int_equal(seteuid(PLAIN), 0);
	int r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, plain);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(r, 0);
	assert_false(is_trusted_by(0, plain[0]));
	assert_true(is_trusted_by(PLAIN, plain[0]));
	assert_false(is_trusted_by(OTHER, plain[0]));
	assert_true(is_trusted_by(PLAIN, own[0]));
	for (int i = 0; i < 2; i++) {
		close(own[i]);
		close(plain[i]);
		close(pipe_ends[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_words),
	    cmocka_unit_test(test_memory),
	    cmocka_unit_test(test_descriptors),
	    cmocka_unit_test(test_trust),
	};

	return unit_run(tests, NULL, NULL);
}
