/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a command's files say of its end: its status, and its result, whose output is read back from
 * its spools. */
#include <errno.h>
#include <stdlib.h>

#include "base/json-fields.h"
#include "base/json.h"
#include "providers/lease-exec-private.h"

/* ---- Reading back ---- */

/* The worker looks at nothing but the spools. */
struct reading {
	struct lease_exec *exec; /* counted */
	struct command_result result;
	int r;
	command_ended_fn *done;
	void *data;
};

/* What came after the end is no part of the result, and may have been appended since. */
static int read_stream(
	const struct lease_exec *exec, enum lease_exec_stream which, struct strbuf *out)
{
	struct spool *spool = exec->streams[which].spool;
	uint64_t size = spool_end_size(spool);

	if (size > exec->command.max_output)
		size = exec->command.max_output;
	return spool_read_head(spool, (size_t)size, out);
}

static void read_streams(void *data)
{
	struct reading *reading = data;
	struct command_result *result = &reading->result;

	reading->r = read_stream(reading->exec, LEASE_EXEC_STDOUT, &result->out);
	if (reading->r == 0)
		reading->r = read_stream(reading->exec, LEASE_EXEC_STDERR, &result->err);
}

static void tell_result(struct reading *reading)
{
	struct error err = ERROR_NONE;

	if (reading->r < 0)
		(void)error_errno(&err, -reading->r, "the output of command %u cannot be read back",
			reading->exec->number);
	reading->done(reading->data, reading->r, reading->r < 0 ? NULL : &reading->result, &err);
	command_result_fini(&reading->result);
	lease_exec_unref(reading->exec);
}

static void finish_reading(void *data)
{
	struct reading *reading = data;
	struct lease_table *table = reading->exec->lease->table;

	tell_result(reading);
	free(reading);
	table->renderings--;
	lease_table_check_stopped(table);
}

static struct command_result result_of(const struct lease_exec *exec)
{
	struct command_result result = exec->result;

	strbuf_init(&result.out);
	strbuf_init(&result.err);
	return result;
}

static bool read_by_worker(const struct reading *what)
{
	struct lease_table *table = what->exec->lease->table;
	struct reading *reading = malloc(sizeof(*reading));

	if (!reading)
		return false;
	*reading = *what;
	if (loop_work(table->loop, read_streams, finish_reading, reading, NULL) < 0) {
		free(reading);
		return false;
	}
	table->renderings++;
	return true;
}

void lease_exec_read_result(struct lease_exec *exec, command_ended_fn *done, void *data)
{
	struct reading reading = {
		.exec = lease_exec_ref(exec),
		.result = result_of(exec),
		.done = done,
		.data = data,
	};
	bool in_memory = spool_in_memory(exec->streams[LEASE_EXEC_STDOUT].spool) &&
			 spool_in_memory(exec->streams[LEASE_EXEC_STDERR].spool);

	if (!in_memory && read_by_worker(&reading))
		return;
	read_streams(&reading);
	tell_result(&reading);
}

/* ---- lease_run() ---- */

struct lease_run {
	struct operation op; /* first */
	struct lease_exec *exec;
	command_ended_fn *done;
	void *data;
};

static void handle_result(void *data, int r, struct command_result *result, const struct error *err)
{
	struct lease_run *run = data;

	run->done(run->data, r, result, err);
	lease_exec_unref(run->exec);
	free(run);
}

void lease_run_end(struct lease_run *run)
{
	lease_exec_read_result(run->exec, handle_result, run);
}

void lease_run_forget(struct lease_run *run)
{
	lease_exec_unref(run->exec);
	free(run);
}

static void cancel(struct operation *op)
{
	lease_exec_cancel(((struct lease_run *)op)->exec);
}

static int begin_run(struct lease *lease, const struct command *command, struct lease_run *run,
	struct error *err)
{
	int r;

	if (command->stdin_pipe)
		return error_set(err, EINVAL,
			"'%s' is for exec/new: nothing could be fed before the reply",
			command->tty_rows ? "tty" : "stdin_pipe");
	r = lease_exec_start(lease, command, &run->exec, err);
	if (r < 0)
		return r;
	(void)lease_exec_ref(run->exec);
	run->exec->run = run;
	return 0;
}

struct operation *lease_run(
	struct lease *lease, const struct command *command, command_ended_fn *done, void *data)
{
	struct lease_answer answer = {.ended = done, .data = data};
	struct lease_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->op.cancel = cancel;
	run->done = done;
	run->data = data;
	answer.r = begin_run(lease, command, run, &answer.err);
	if (answer.r == 0)
		return &run->op;
	free(run);
	return lease_answer_later(lease->table, &answer);
}

/* ---- `wait` ---- */

struct showing {
	struct lease_exec *exec; /* counted */
	lease_rendered_fn *done;
	void *data;
};

static void handle_read(void *data, int r, struct command_result *result, const struct error *err)
{
	struct showing *showing = data;
	struct command command = COMMAND_INIT;
	struct error why;

	if (r == 0) {
		r = command_copy(&command, &showing->exec->command, &why);
		err = &why;
	}
	if (r < 0)
		showing->done(showing->data, r, NULL, err);
	else
		lease_render_result_later(
			showing->exec->lease, &command, result, showing->done, showing->data);
	command_fini(&command);
	lease_exec_unref(showing->exec);
	free(showing);
}

void lease_exec_render_result(struct lease_exec *exec, lease_rendered_fn *done, void *data)
{
	struct showing *showing = malloc(sizeof(*showing));
	struct error err;

	if (!showing) {
		done(data, error_set(&err, ENOMEM, "no memory for a result"), NULL, &err);
		return;
	}
	*showing = (struct showing){.exec = lease_exec_ref(exec), .done = done, .data = data};
	lease_exec_read_result(exec, handle_read, showing);
}

/* ---- `status` ---- */

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void add_rusage(const struct rusage *rusage, struct strbuf *out)
{
	json_add_key(out, "rusage");
	strbuf_addc(out, '{');
	json_add_seconds_key(out, "user_sec", seconds(rusage->ru_utime));
	json_add_seconds_key(out, "system_sec", seconds(rusage->ru_stime));
	json_add_count_key(out, "max_rss_kib", (uint64_t)rusage->ru_maxrss);
	strbuf_addc(out, '}');
}

static void add_stream(const char *name, const struct spool *spool, struct strbuf *out)
{
	struct spool_counts counts = spool_counts(spool);

	json_add_key(out, name);
	strbuf_addc(out, '{');
	json_add_count_key(out, "bytes", counts.kept + counts.dropped);
	json_add_count_key(out, "kept", counts.kept);
	json_add_count_key(out, "dropped", counts.dropped);
	json_add_count_key(out, "late_bytes", counts.late);
	json_add_text_key(out, "error", counts.error ? strerrorname_np(counts.error) : NULL);
	strbuf_addc(out, '}');
}

static void add_end(const struct lease_exec *exec, struct strbuf *out)
{
	const struct command_result *result = &exec->result;

	json_add_key(out, "ended_at");
	if (!exec->complete) {
		strbuf_adds(out, "null");
		return;
	}
	strbuf_addf(out, "%.6f", exec->ended_at);
	json_add_seconds_key(out, "duration_sec", result->duration_sec);
	json_add_key(out, "returncode");
	if (result->has_returncode)
		strbuf_addf(out, "%d", result->returncode);
	else
		strbuf_adds(out, "null");
	command_result_add_signal(result, out);
	json_add_bool_key(out, "timed_out", result->timed_out);
	json_add_text_key(out, "reason", result->reason ? reason_word(result->reason) : NULL);
	add_rusage(&result->rusage, out);
}

void lease_exec_render_status(const struct lease_exec *exec, struct strbuf *out)
{
	strbuf_addc(out, '{');
	json_add_count_key(out, "exec_id", exec->number);
	json_add_text_key(out, "state", lease_exec_state_name(exec->state));
	json_add_seconds_key(out, "started_at", exec->started_at);
	add_end(exec, out);
	add_stream("stdout", exec->streams[LEASE_EXEC_STDOUT].spool, out);
	add_stream("stderr", exec->streams[LEASE_EXEC_STDERR].spool, out);
	strbuf_adds(out, "}\n");
}
