/* Internal to perf/export/parquet: rows, which a Python with pyarrow makes into Parquet files. */
#ifndef PERF_EXPORT_PARQUET_INTERNAL_H
#define PERF_EXPORT_PARQUET_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* INT: int64. TIME: a timestamp without a time zone, in microseconds, and so is its value here.
 * BOOL: 0 or 1. TEXT: UTF-8. */
enum parquet_type { PARQUET_INT, PARQUET_TIME, PARQUET_BOOL, PARQUET_TEXT };

struct parquet_column {
	const char *name;
	enum parquet_type type;
};

struct parquet_table {
	const char *name;
	const struct parquet_column *columns; /* up to one without a name */
};

/* The Python that writes (parquet_python.c). */
struct parquet_python {
	const char *python;
	pid_t pid;
	int talk;	   /* a socket */
	struct err failed; /* the first failure; code 0: none */
};

/* Start p->python. 0, or -errno with *e. */
int parquet_python_start(struct parquet_python *p, struct err *e);

/* Send the bytes, and with the first of them a descriptor, unless that is -1. After a failure it
 * does nothing. 0, or that failure. */
int parquet_python_send(struct parquet_python *p, const void *bytes, size_t len, int fd);

/* Hear that it has completed the files, or fail. */
void parquet_python_end(struct parquet_python *p);

/* The Python and the files that it writes. */
struct parquet_out;

/* Start `python`. 0 and *out (end with parquet_out_end), or -errno with *e. */
int parquet_out_open(const char *python, struct parquet_out **out, struct err *e);

/* A file of rows. */
struct parquet_file;

/* Begin `path`, in a folder that is there. NULL: parquet_out_end says why. */
struct parquet_file *parquet_file_open(struct parquet_out *o, const char *path,
				       const struct parquet_table *t);

/* Fill the columns of a row, one after the other, then end it. After a failure they do nothing. */
void parquet_int(struct parquet_file *f, int64_t n);
void parquet_known(struct parquet_file *f, uint64_t n); /* 0: null */
void parquet_null(struct parquet_file *f);
void parquet_text(struct parquet_file *f, const char *s); /* NULL: null; any bytes are safe */
void parquet_row_end(struct parquet_file *f);

/* 0, or -errno of the first failure. */
int parquet_out_error(const struct parquet_out *o);

/* With `r` 0, and if nothing failed, complete the files and give them their names; else nothing is
 * left of them. Frees `o`. `r`, or -errno with *e. */
int parquet_out_end(struct parquet_out *o, int r, struct err *e);

/* The files of a data set: a folder for each table, host and rank (parquet_files.c). */

enum parquet_of { EVENTS, STACKS, OPS, COLLECTIVES, STEPS, MEMORY, BLOCKS, TABLES };

struct parquet_part_name {
	uint32_t rank1; /* 0: none */
	char host[64];	/* "": not known */
};

/* What has a file of each table: a rank of a host. */
struct parquet_part {
	struct parquet_part_name name;
	struct parquet_file *files[TABLES]; /* NULL: no row so far */
};

struct parquet_process {
	int32_t pid;
	uint32_t rank1;
	size_t part;
	uint64_t from_ns, to_ns; /* of its events; to_ns 0: none */
};

/* Zero-initialise all but `folder`, `out` and `begun_ns`. */
struct parquet_set {
	const char *folder;
	bool was_there; /* the folder */
	struct parquet_out *out;
	uint64_t begun_ns; /* CLOCK_REALTIME */
	struct parquet_part *parts;
	struct parquet_process *processes;
	size_t nparts, parts_room, nprocesses, processes_room;
	struct err failed; /* code 0: nothing did */
};

/* A process is there; one that has its PID is another one. Its index, or -ENOMEM. */
int64_t parquet_process_new(struct parquet_set *s, int32_t pid, uint32_t rank1, const char *host);

/* The index of the process that came last with that PID, or -ENOENT. */
int64_t parquet_process_find(const struct parquet_set *s, int32_t pid, uint32_t rank1);

/* Begin a row of the process, by index, with the columns that all tables have. NULL: s->failed, or
 * parquet_out_error, says why. */
struct parquet_file *parquet_row(struct parquet_set *s, enum parquet_of table, size_t process);

/* Remove empty folders of files that did not come to be. */
void parquet_remove_folders(const struct parquet_set *s);

void parquet_set_free(struct parquet_set *s);

#endif
