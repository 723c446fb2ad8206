/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every provider does alike: commands that are looked at while they run and afterwards. */
#include "tests/contract/world.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/strbuf.h"
#include "config/settings.h"
#include "pool/spool.h"
#include "providers/lease-exec.h"

/* The request as it would be written to exec/new; counted. */
static struct lease_exec *start(struct world *world, struct lease *lease, const char *request)
{
	struct command command;
	struct lease_exec *exec = NULL;
	struct error err = ERROR_NONE;

	if (command_decode(request, strlen(request), world->config, &command, &err) < 0 ||
		lease_exec_start(lease, &command, &exec, &err) < 0)
		fail_msg("%s: %s", request, err.text);
	command_fini(&command);
	return lease_exec_ref(exec);
}

static void assert_said(
	const struct lease_exec *exec, enum lease_exec_stream which, const char *text)
{
	struct strbuf said = STRBUF_INIT;

	assert_int_equal(spool_read_head(lease_exec_spool(exec, which), 4096, &said), 0);
	assert_string_equal(said.size ? said.data : "", text);
	strbuf_fini(&said);
}

static void assert_status_has(const struct lease_exec *exec, const char *part)
{
	struct strbuf status = STRBUF_INIT;

	lease_exec_render_status(exec, &status);
	if (!strstr(status.data, part))
		fail_msg("%s is not in %s", part, status.data);
	strbuf_fini(&status);
}

static void await_output(struct world *world, const struct lease_exec *exec, uint64_t size)
{
	while (spool_size(lease_exec_spool(exec, LEASE_EXEC_STDOUT)) < size)
		loop_run(world->loop);
}

static void a_command_is_found_while_it_runs_and_afterwards(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct lease_exec *first = start(world, lease, "echo one; sleep 100");
	struct lease_exec *second = start(world, lease, "echo two; echo oops >&2; exit 3");

	assert_int_equal(lease_exec_number(first), 1);
	assert_ptr_equal(lease_exec_find(lease, 2), second);
	assert_ptr_equal(lease_exec_find_serial(world->table, lease_exec_serial(first)), first);
	assert_null(lease_exec_find(lease, 3));
	assert_ptr_equal(lease_exec_next(lease, NULL), first);
	assert_ptr_equal(lease_exec_next(lease, first), second);
	await_exec(world, second, LEASE_EXEC_EXITED);
	assert_status_has(second, "\"returncode\":3");
	assert_status_has(
		second, "\"stdout\":{\"bytes\":4,\"kept\":4,\"dropped\":0,\"late_bytes\":0");
	assert_said(second, LEASE_EXEC_STDOUT, "two\n");
	assert_said(second, LEASE_EXEC_STDERR, "oops\n");
	assert_true(lease_exec_ended_at(second) >= lease_exec_started_at(second));
	await_output(world, first, 4);
	assert_int_equal(lease_exec_state(first), LEASE_EXEC_RUNNING);
	assert_status_has(first, "\"state\":\"running\"");
	assert_said(first, LEASE_EXEC_STDOUT, "one\n");
	lease_exec_cancel(first);
	await_exec(world, first, LEASE_EXEC_KILLED);
	assert_said(first, LEASE_EXEC_STDOUT, "one\n");
	lease_exec_unref(first);
	lease_exec_unref(second);
}

static void what_run_command_runs_is_among_them(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct running running;

	run(world, lease, "echo hi", &running);
	assert_int_equal(running.result.exec_id, 1);
	assert_non_null(lease_exec_find(lease, 1));
	assert_said(lease_exec_find(lease, 1), LEASE_EXEC_STDOUT, "hi\n");
	running_fini(&running);
}

static void one_that_runs_cannot_be_removed_and_one_that_was_is_gone_for_good(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct lease_exec *exec = start(world, lease, "echo kept; sleep 100");
	struct error err = ERROR_NONE;

	assert_int_equal(lease_exec_remove(exec, &err), -EBUSY);
	lease_exec_cancel(exec);
	await_exec(world, exec, LEASE_EXEC_KILLED);
	assert_status_has(exec, "\"signal\":\"SIGKILL\"");
	assert_status_has(exec, "\"reason\":\"cancelled\"");
	assert_int_equal(lease_exec_signal(exec, SIGTERM, false, &err), -ESRCH);
	assert_int_equal(lease_exec_remove(exec, &err), 0);
	assert_null(lease_exec_find(lease, 1));
	assert_null(lease_exec_find_serial(world->table, lease_exec_serial(exec)));
	lease_exec_unref(exec);
	exec = start(world, lease, "true");
	assert_int_equal(lease_exec_number(exec), 2);
	await_exec(world, exec, LEASE_EXEC_EXITED);
	lease_exec_unref(exec);
}

static void the_last_of_those_that_have_ended_are_kept(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	unsigned keep = world->config->exec.keep;
	struct lease_exec *running = start(world, lease, "sleep 100");

	for (unsigned i = 0; i < keep + 3; i++) {
		struct lease_exec *exec = start(world, lease, "true");

		await_exec(world, exec, LEASE_EXEC_EXITED);
		lease_exec_unref(exec);
	}
	assert_non_null(lease_exec_find(lease, 1)); /* it runs */
	assert_null(lease_exec_find(lease, 4));
	assert_non_null(lease_exec_find(lease, 5));
	assert_non_null(lease_exec_find(lease, keep + 4));
	lease_exec_unref(running);
}

static void with_the_sandbox_a_command_is_lost_and_what_it_said_stays(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct lease_exec *exec = start(world, lease, "echo early; sleep 100");

	await_output(world, exec, 6);
	lose(world, lease);
	await_exec(world, exec, LEASE_EXEC_LOST);
	assert_status_has(exec, "\"reason\":\"slot_lost\"");
	assert_status_has(exec, "\"returncode\":null");
	assert_said(exec, LEASE_EXEC_STDOUT, "early\n");
	assert_ptr_equal(lease_exec_find(lease, 1), exec);
	lease_exec_unref(exec);
}

static void with_the_lease_they_go_and_who_has_one_reads_on(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct lease_exec *ended = start(world, lease, "echo done");
	struct lease_exec *cut = start(world, lease, "sleep 100");
	uint64_t serial = lease_exec_serial(ended);

	await_exec(world, ended, LEASE_EXEC_EXITED);
	cJSON_Delete(end(world, "t"));
	assert_null(lease_exec_find_serial(world->table, serial));
	await_exec(world, cut, LEASE_EXEC_LOST);
	assert_status_has(cut, "\"reason\":\"terminated\"");
	assert_said(ended, LEASE_EXEC_STDOUT, "done\n");
	lease_exec_unref(ended);
	lease_exec_unref(cut);
}

static void a_command_that_was_given_no_pipe_cannot_be_fed(void **state)
{
	struct world *world = *state;
	struct lease_exec *exec = start(world, take(world, "t"), "cat");

	assert_false(lease_exec_can_be_fed(exec));
	assert_int_equal(lease_exec_feed(exec, "x", 1), -EPIPE);
	lease_exec_feed_end(exec);
	await_exec(world, exec, LEASE_EXEC_EXITED);
	lease_exec_unref(exec);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest cases[] = {
		CASE(a_command_is_found_while_it_runs_and_afterwards),
		CASE(what_run_command_runs_is_among_them),
		CASE(one_that_runs_cannot_be_removed_and_one_that_was_is_gone_for_good),
		CASE(the_last_of_those_that_have_ended_are_kept),
		CASE(with_the_sandbox_a_command_is_lost_and_what_it_said_stays),
		CASE(with_the_lease_they_go_and_who_has_one_reads_on),
		CASE(a_command_that_was_given_no_pipe_cannot_be_fed),
	};

	return WORLD_MAIN(argc, argv, cases);
}
