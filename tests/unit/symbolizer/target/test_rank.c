#define _GNU_SOURCE
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbolizer/target/process.h"

static struct process_rank parsed(const char *environ, size_t size)
{
	struct process_rank r;
	process_rank_parse(environ, size, &r);
	return r;
}

#define PARSED(text) parsed(text, sizeof(text))

static void of_torchrun(void **state)
{
	(void)state;
	struct process_rank r = PARSED("LOCAL_RANK=1\0RANK=5\0GROUP_RANK=2\0WORLD_SIZE=8\0"
				       "TORCHELASTIC_RESTART_COUNT=3\0HOME=/");
	assert_int_equal(r.rank, 5);
	assert_int_equal(r.world_size, 8);
	assert_int_equal(r.local_rank, 1);
	assert_int_equal(r.node, 2);
	assert_int_equal(r.restarts, 3);
	r = PARSED("RANK=0\0WORLD_SIZE=1");
	assert_int_equal(r.rank, 0);
	assert_int_equal(r.local_rank, -1);
}

static void of_other_launchers(void **state)
{
	(void)state;
	struct process_rank r = PARSED("SLURM_PROCID=3\0SLURM_NTASKS=4\0SLURM_STEP_NUM_TASKS=4\0"
				       "SLURM_LOCALID=1\0SLURM_NODEID=1\0SLURM_JOB_ID=7");
	assert_true(r.rank == 3 && r.world_size == 4 && r.local_rank == 1 && r.node == 1);
	assert_int_equal(r.restarts, -1);
	/* a script of sbatch, which is no rank */
	assert_int_equal(PARSED("SLURM_PROCID=0\0SLURM_NTASKS=4").rank, -1);
	r = PARSED("OMPI_COMM_WORLD_RANK=1\0OMPI_COMM_WORLD_SIZE=2\0OMPI_COMM_WORLD_LOCAL_RANK=0\0"
		   "SLURM_PROCID=0\0SLURM_STEP_NUM_TASKS=1");
	assert_true(r.rank == 1 && r.world_size == 2 && r.local_rank == 0 && r.node == -1);
	r = PARSED("PMI_RANK=1\0PMI_SIZE=2");
	assert_true(r.rank == 1 && r.world_size == 2);
	/* torchrun, one for each node, started by srun */
	r = PARSED("SLURM_PROCID=1\0SLURM_STEP_NUM_TASKS=2\0RANK=5\0WORLD_SIZE=8\0LOCAL_RANK=1");
	assert_true(r.rank == 5 && r.world_size == 8 && r.local_rank == 1);
}

static void what_makes_no_sense_is_not_known(void **state)
{
	(void)state;
	assert_int_equal(PARSED("RANK=1").rank, -1);
	assert_int_equal(PARSED("WORLD_SIZE=2").world_size, -1);
	assert_int_equal(PARSED("RANK=2\0WORLD_SIZE=2\0LOCAL_RANK=0").local_rank, -1);
	assert_int_equal(PARSED("RANK=-1\0WORLD_SIZE=2").rank, -1);
	assert_int_equal(PARSED("RANK=1x\0WORLD_SIZE=2").rank, -1);
	assert_int_equal(PARSED("RANK=\0WORLD_SIZE=2").rank, -1);
	assert_int_equal(PARSED("RANK=99999999999\0WORLD_SIZE=999999999999").rank, -1);
	assert_int_equal(PARSED("XRANK=1\0RANK\0WORLD_SIZE=2").rank, -1);
	assert_int_equal(parsed("", 0).rank, -1);
	/* The last value is cut: it may be another number. */
	assert_int_equal(parsed("WORLD_SIZE=64\0RANK=1", sizeof("WORLD_SIZE=64") + 6).rank, -1);
}

/* A process with these variables that does nothing. */
static pid_t start(const char *const *env)
{
	int ready[2];
	char c;
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	if (!pid) {
		execle("/bin/sleep", "sleep", "1000", NULL, env);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 0); /* closed by exec */
	close(ready[0]);
	return pid;
}

static enum rank_role own_role(const char *environ, size_t size)
{
	struct process_rank r = parsed(environ, size);
	return process_rank_role(getpid(), &r);
}

#define OWN_ROLE(text) own_role(text, sizeof(text))

static void a_launcher_is_known_by_what_it_has_started(void **state)
{
	(void)state;
	static const char srun[] = "SLURM_PROCID=0\0SLURM_STEP_NUM_TASKS=2\0SLURM_LOCALID=0";
	const char *const ranks[] = {"RANK=1", "WORLD_SIZE=2", "TORCHELASTIC_RESTART_COUNT=0",
				     NULL};
	assert_int_equal(OWN_ROLE("A=B"), RANK_NONE);
	assert_int_equal(own_role(srun, sizeof(srun)), RANK_OWN);
	pid_t child = start(ranks);
	assert_int_equal(own_role(srun, sizeof(srun)), RANK_LAUNCHER);
	/* a node's rank, of a launcher that has one rank on each */
	assert_int_equal(OWN_ROLE("RANK=1\0WORLD_SIZE=2"), RANK_LAUNCHER);
	/* a rank may start a smaller training */
	assert_int_equal(OWN_ROLE("RANK=1\0WORLD_SIZE=4\0TORCHELASTIC_RESTART_COUNT=0"), RANK_OWN);
	/* a shell: its child has its rank, and it has no PyTorch */
	assert_int_equal(OWN_ROLE("RANK=1\0WORLD_SIZE=2\0TORCHELASTIC_RESTART_COUNT=0"),
			 RANK_LAUNCHER);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void of_a_process(void **state)
{
	(void)state;
	struct process_rank r;
	char host[64] = "";
	gethostname(host, sizeof(host) - 1);
	process_rank_read(getpid(), &r);
	assert_string_equal(r.host, host);
	process_rank_read(0x7ffffff0, &r);
	assert_int_equal(r.rank, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(of_torchrun),
	    cmocka_unit_test(of_other_launchers),
	    cmocka_unit_test(what_makes_no_sense_is_not_known),
	    cmocka_unit_test(a_launcher_is_known_by_what_it_has_started),
	    cmocka_unit_test(of_a_process),
	};
	return unit_run(tests, NULL, NULL);
}
