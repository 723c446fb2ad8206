/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the request files of exec/ do: new, N/wait, N/signal. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/json-fields.h"
#include "base/json.h"
#include "fs/control.h"
#include "fs/inode.h"
#include "fs/job.h"
#include "providers/lease-exec.h"
#include "providers/sandbox.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* new */

static void begin_new(struct job *job, const char *text, size_t size, bool json)
{
	struct lease_exec *exec = NULL;
	struct error err = ERROR_NONE;
	int r = command_decode(text, size, job->control->config, &job->command, &err);

	(void)json;
	if (r == 0)
		r = lease_exec_start(job->lease, &job->command, &exec, &err);
	command_fini(&job->command); /* its input and script may be large, and the reply stays */
	if (r == 0)
		strbuf_addf(&job->reply, "%u\n", lease_exec_number(exec));
	job_end(job, r, &err);
}

static int refuse_new(const struct node *node, struct error *err)
{
	return lease_check_active(node->lease, err);
}

const struct verb verb_exec_new = {
	.name = "exec/new",
	.usage = "Write what run_command takes, read the command's number on the same descriptor:\n"
		 "  exec 3<>new; echo 'make test' >&3; read n <&3; cat $n/stdout\n"
		 "With \"stdin_pipe\": true what is written to N/stdin is its standard input.\n",
	.script = true,
	.shows_last = true,
	.begin = begin_new,
	.refuse = refuse_new,
};

/* N/wait */

static void render(struct job *job)
{
	job->rendering = true;
	lease_exec_render_result(job->exec, job_rendered, job);
}

/* The request is made when somebody opens the file. */
static void begin_wait(struct job *job, const char *text, size_t size, bool json)
{
	(void)text;
	(void)size;
	(void)json;
	if (lease_exec_state(job->exec) != LEASE_EXEC_RUNNING)
		render(job);
}

static void abandon_wait(struct job *job)
{
	if (!job->rendering)
		job_drop(job);
}

void verb_exec_wait_ended(struct control *control, struct lease_exec *exec)
{
	struct inode *inode =
		inode_find(control, node_ino(NODE_EXEC_WAIT, lease_exec_serial(exec)));

	if (inode && inode->last && !inode->last->rendering)
		render(inode->last);
}

const struct verb verb_exec_wait = {
	.name = "wait",
	.shows_last = true,
	.abandon = abandon_wait,
	.begin = begin_wait,
};

/* N/signal */

struct order {
	int number;
	bool leader;
	unsigned rows, cols; /* not 0: a new size of its terminal, no signal */
};

static int parse_number(const char *word)
{
	char *end;
	long number = strtol(word, &end, 10);

	return *word >= '1' && *word <= '9' && *end == '\0' && number < NSIG ? (int)number : 0;
}

/* TERM, SIGTERM, 15. */
static int parse_signal(const char *word, int *ret_number, struct error *err)
{
	const char *name = strncmp(word, "SIG", 3) == 0 ? word + 3 : word;
	int number = parse_number(word);

	for (int n = 1; n < NSIG && number == 0; n++)
		if (sigabbrev_np(n) && strcmp(sigabbrev_np(n), name) == 0)
			number = n;
	if (number == 0)
		return error_set(err, EINVAL,
			"'%.100s' is no signal: write TERM, KILL, 15, or leader:TERM", word);
	*ret_number = number;
	return 0;
}

static int parse_winsize(const char *text, struct order *ret_order, struct error *err)
{
	unsigned rows, cols;
	int end = -1;

	if (sscanf(text, "winsize %5u %5u %n", &rows, &cols, &end) < 2 || end < 0 || text[end] ||
		rows < 1 || rows > UINT16_MAX || cols < 1 || cols > UINT16_MAX)
		return error_set(err, EINVAL,
			"'%.100s': write winsize ROWS COLS, each from 1 to 65535", text);
	ret_order->rows = rows;
	ret_order->cols = cols;
	return 0;
}

static int order_from_text(const char *text, struct order *ret_order, struct error *err)
{
	static const char leader[] = "leader:";
	bool to_leader = strncmp(text, leader, strlen(leader)) == 0;

	if (strncmp(text, "winsize", strlen("winsize")) == 0)
		return parse_winsize(text, ret_order, err);
	ret_order->leader = to_leader;
	return parse_signal(to_leader ? text + strlen(leader) : text, &ret_order->number, err);
}

struct signal_values {
	const char *signal;
	bool leader;
};

static const struct json_field signal_fields[] = {
	{"signal", JSON_STRING, offsetof(struct signal_values, signal), .required = true},
	{"leader", JSON_BOOL, offsetof(struct signal_values, leader)},
};

static int order_from_json(
	const char *text, size_t size, struct order *ret_order, struct error *err)
{
	CLEANUP(cjson_deletep) cJSON *object = NULL;
	struct signal_values values = {0};
	int r = json_parse_object(text, size, &object, err);

	if (r == 0)
		r = json_fields_read(object, signal_fields, COUNT(signal_fields), &values, err);
	if (r < 0)
		return r;
	ret_order->leader = values.leader;
	return parse_signal(values.signal, &ret_order->number, err);
}

static void render_order(const struct order *order, struct strbuf *out)
{
	char digits[16];
	const char *name = sigabbrev_np(order->number);

	(void)snprintf(digits, sizeof(digits), "%d", order->number);
	if (order->rows) {
		strbuf_addf(out, "{\"rows\":%u,\"cols\":%u}\n", order->rows, order->cols);
		return;
	}
	strbuf_addc(out, '{');
	json_add_text_key(out, "signal", name ? name : digits);
	json_add_bool_key(out, "leader", order->leader);
	strbuf_adds(out, "}\n");
}

static void begin_signal(struct job *job, const char *text, size_t size, bool json)
{
	struct order order = {0};
	struct error err = ERROR_NONE;
	int r = json ? order_from_json(text, size, &order, &err)
		     : order_from_text(text, &order, &err);

	if (r == 0 && order.rows)
		r = lease_exec_resize(job->exec, (uint16_t)order.rows, (uint16_t)order.cols, &err);
	else if (r == 0)
		r = lease_exec_signal(job->exec, order.number, order.leader, &err);
	if (r == 0)
		render_order(&order, &job->reply);
	job_end(job, r, &err);
}

const struct verb verb_exec_signal = {
	.name = "signal",
	.usage = "Write a signal for all processes of this command, or for its first one alone:\n"
		 "  echo TERM > signal; echo leader:INT > signal; echo 9 > signal\n",
	.immediate = true,
	.begin = begin_signal,
};
