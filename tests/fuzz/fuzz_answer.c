/* Fuzzes the answers on the socket of the shim: it maps memory of the full size that is sealed, or
 * nothing, and leaks no descriptor. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "tests/fuzz/input.h"
#include "tests/unit/shim_answers.h"
#include "tracer/shim/answer.c"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static int a_descriptor(struct input *in)
{
	uint8_t b[2] = {0};
	take(in, b, sizeof(b));
	switch (b[0] % 4) {
	case 0:
		return said_memory(sizeof(struct shim_share) + b[1] % 3 * 4096 - 4096,
				   F_SEAL_SHRINK);
	case 1:
		return said_memory(sizeof(struct shim_share), b[1] & 0xf);
	case 2:
		return open("/dev/null", O_RDWR | O_CLOEXEC);
	default:
		return said_memory((uint64_t)b[1] << 20, F_SEAL_SHRINK);
	}
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	struct input in = {data, size};
	struct said s = {0};
	struct stat st;
	uint8_t b[2] = {0};
	int sock[2];
	unsigned before = said_open();
	take(&in, b, sizeof(b));
	s.len = b[0] % (sizeof(s.answer) + 1);
	if (b[0] & 0x80)
		take(&in, &s.answer, sizeof(s.answer));
	for (; s.nfds < b[1] % (SAID_FDS + 1U); s.nfds++)
		if ((s.fd[s.nfds] = a_descriptor(&in)) < 0)
			abort();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock))
		abort();
	said_send(sock[0], &s);
	close(sock[0]);
	int memory = answer_receive(sock[1]);
	close(sock[1]);
	if (memory >= 0 && (fstat(memory, &st) || st.st_size != (off_t)sizeof(struct shim_share) ||
			    !(fcntl(memory, F_GET_SEALS) & F_SEAL_SHRINK) || close(memory)))
		abort();
	if (said_open() != before)
		abort();
	return 0;
}
