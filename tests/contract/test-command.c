/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What every provider does alike: running commands in a sandbox. */
#include "tests/contract/world.h"

#include <errno.h>
#include <signal.h>

#include "base/json.h"

static void a_command_gives_its_output_and_exit_status(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct running running;

	run(world, lease, "echo hi\necho oops >&2\nexit 3\n", &running);
	assert_int_equal(running.r, 0);
	assert_true(running.result.started);
	assert_true(running.result.has_returncode);
	assert_int_equal(running.result.returncode, 3);
	assert_string_equal(running.result.out.data, "hi\n");
	assert_string_equal(running.result.err.data, "oops\n");
	assert_false(running.result.infra_failure);
	assert_int_equal(running.result.reason, REASON_NONE);
	assert_int_equal(running.result.exec_id, 1);
	running_fini(&running);
	run(world, lease, "true", &running);
	assert_int_equal(running.result.returncode, 0);
	assert_int_equal(running.result.exec_id, 2);
	running_fini(&running);
}

static void a_list_is_run_without_a_shell(void **state)
{
	struct world *world = *state;
	struct running running;

	run(world, take(world, "t"), "{\"command\": [\"echo\", \"a  $HOME;\", \"b\"]}", &running);
	assert_int_equal(running.result.returncode, 0);
	assert_string_equal(running.result.out.data, "a  $HOME; b\n");
	running_fini(&running);
}

static void standard_input_is_what_the_request_says(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct running running;

	run(world, lease, "{\"command\": \"cat\", \"stdin_base64\": \"AAEC/w==\"}", &running);
	assert_int_equal(running.result.out.size, 4);
	assert_memory_equal(running.result.out.data, "\0\1\2\xff", 4);
	running_fini(&running);
	run(world, lease, "cat", &running);
	assert_int_equal(running.result.returncode, 0);
	assert_int_equal(running.result.out.size, 0);
	running_fini(&running);
}

static void the_spec_s_environment_reaches_commands_which_may_override_it(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(
		world, "{\"trajectory_id\": \"t\", \"env\": {\"A\": \"one\", \"B\": \"two\"}}");
	struct running running;

	run(world, lease, "{\"command\": \"printenv A; printenv B\", \"env\": {\"B\": \"mine\"}}",
		&running);
	assert_string_equal(running.result.out.data, "one\nmine\n");
	running_fini(&running);
}

static void output_beyond_the_limit_is_counted(void **state)
{
	struct world *world = *state;
	struct running running;

	run(world, take(world, "t"),
		"{\"command\": \"echo 123456; echo 789\", \"max_output_bytes\": 4}", &running);
	assert_string_equal(running.result.out.data, "1234");
	assert_int_equal(running.result.out_bytes, 11);
	running_fini(&running);
}

static void a_command_that_runs_out_of_time_is_killed_and_keeps_its_output(void **state)
{
	struct world *world = *state;
	struct running running;

	run(world, take(world, "t"), "{\"command\": \"echo early; sleep 100\", \"timeout\": 0.3}",
		&running);
	assert_int_equal(running.r, 0);
	assert_true(running.result.timed_out);
	assert_int_equal(running.result.returncode, -SIGKILL);
	assert_int_equal(running.result.reason, REASON_TIMEOUT);
	assert_false(running.result.infra_failure);
	assert_string_equal(running.result.out.data, "early\n");
	assert_true(running.result.duration_sec < 50);
	running_fini(&running);
}

static void a_cancelled_command_is_killed(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct running running, other;

	run_begin(world, lease, "sleep 100", &running);
	run(world, lease, "true", &other);
	assert_false(running.done);
	operation_cancel(running.op);
	operation_cancel(running.op);
	assert_false(running.done);
	await(world, &running.done);
	assert_int_equal(running.r, 0);
	assert_int_equal(running.result.reason, REASON_CANCELLED);
	assert_int_equal(running.result.returncode, -SIGKILL);
	running_fini(&running);
	running_fini(&other);
}

static void a_command_cancelled_at_once_never_comes_back_as_a_success(void **state)
{
	struct world *world = *state;
	struct running running;

	run_begin(world, take(world, "t"), "sleep 100", &running);
	operation_cancel(running.op);
	await(world, &running.done);
	if (running.r == 0)
		assert_int_equal(running.result.reason, REASON_CANCELLED);
	else
		assert_int_equal(running.r, -ECANCELED);
	running_fini(&running);
}

static void commands_of_one_lease_run_side_by_side(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct running slow, quick;

	run_begin(world, lease, "sleep 100", &slow);
	run_begin(world, lease, "echo quick", &quick);
	await(world, &quick.done);
	assert_string_equal(quick.result.out.data, "quick\n");
	assert_false(slow.done);
	operation_cancel(slow.op);
	await(world, &slow.done);
	running_fini(&slow);
	running_fini(&quick);
}

static void a_signal_is_a_negative_returncode(void **state)
{
	struct world *world = *state;
	struct running running;

	run(world, take(world, "t"), "kill -9 $$", &running);
	assert_int_equal(running.result.returncode, -SIGKILL);
	assert_int_equal(running.result.signal, SIGKILL);
	assert_false(running.result.infra_failure);
	running_fini(&running);
}

static void a_program_that_is_not_there_is_a_result(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct running running;

	run(world, lease, "no-such-program-here", &running);
	assert_int_equal(running.r, 0);
	assert_int_equal(running.result.returncode, 127);
	assert_false(running.result.infra_failure);
	running_fini(&running);
	run(world, lease, "{\"command\": [\"no-such-program-here\"]}", &running);
	assert_int_equal(running.r, 0);
	assert_int_equal(running.result.returncode, 127);
	assert_false(running.result.infra_failure);
	running_fini(&running);
}

static void a_result_says_where_it_ran(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct strbuf text = STRBUF_INIT;
	struct command command;
	struct running running;
	struct error err = ERROR_NONE;
	cJSON *json, *metadata;

	assert_int_equal(command_decode("echo hi", 7, world->config, &command, &err), 0);
	run(world, lease, "echo hi", &running);
	lease_render_result(lease, &command, &running.result, &text);
	assert_int_equal(json_parse_object(text.data, text.size, &json, &err), 0);
	metadata = cJSON_GetObjectItem(json, "metadata");
	assert_string_equal(text_of(json, "cmd"), "echo hi");
	assert_string_equal(text_of(json, "stdout"), "hi\n");
	assert_string_equal(text_of(metadata, "lease_id"), lease_id(lease));
	assert_string_equal(text_of(metadata, "trajectory_id"), "t");
	assert_true(number_of(metadata, "slot_id") >= 0);
	assert_int_equal(number_of(metadata, "generation"), 1);
	assert_string_equal(text_of(metadata, "node_ip"), "127.0.0.1");
	cJSON_Delete(json);
	strbuf_fini(&text);
	command_fini(&command);
	running_fini(&running);
}

static void commands_end_as_lost_with_the_lease_s_reason(void **state)
{
	struct world *world = *state;
	struct lease *lease = take(world, "t");
	struct running running;

	run_begin(world, lease, "echo before; sleep 100", &running);
	lease_end(lease, REASON_OPERATOR, NULL);
	assert_false(running.done);
	await(world, &running.done);
	assert_int_equal(running.r, 0);
	assert_false(running.result.has_returncode);
	assert_true(running.result.infra_failure);
	assert_int_equal(running.result.reason, REASON_OPERATOR);
	running_fini(&running);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest cases[] = {
		CASE(a_command_gives_its_output_and_exit_status),
		CASE(a_list_is_run_without_a_shell),
		CASE(standard_input_is_what_the_request_says),
		CASE(the_spec_s_environment_reaches_commands_which_may_override_it),
		CASE(output_beyond_the_limit_is_counted),
		CASE(a_command_that_runs_out_of_time_is_killed_and_keeps_its_output),
		CASE(a_cancelled_command_is_killed),
		CASE(a_command_cancelled_at_once_never_comes_back_as_a_success),
		CASE(commands_of_one_lease_run_side_by_side),
		CASE(a_signal_is_a_negative_returncode),
		CASE(a_program_that_is_not_there_is_a_result),
		CASE(a_result_says_where_it_ran),
		CASE(commands_end_as_lost_with_the_lease_s_reason),
	};

	return WORLD_MAIN(argc, argv, cases);
}
