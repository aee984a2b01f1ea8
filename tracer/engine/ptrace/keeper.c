#define _GNU_SOURCE
#include <sys/socket.h>
#include <unistd.h>

#include "tracer/engine/ptrace/internal.h"
#include "tracer/proc/spawn.h"

/* It does not depend on ditrace: both may be killed. Nothing is sent on the socket, whose other end
 * is the tracing process's alone. */
static void keep(struct share *share, int sock)
{
	char none;
	helper_begin("ditrace-keeper", sock);
	helper_receive(sock, &none, sizeof(none));
	share_repair(share);
}

pid_t keeper_start(struct share *share, int sock, const int *others, unsigned n)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	for (unsigned i = 0; i < n; i++)
		close(others[i]);
	keep(share, sock);
	_exit(0);
}
