/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "pool/metrics.h"

#include "pool/command.h"

/* From a command that does nothing to the longest that a create waits by default. */
const double histogram_bounds[HISTOGRAM_BOUNDS] = {
	0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30, 120, 600, 1800};

const char *command_end_word(enum command_end end)
{
	static const char *const words[COMMAND_END_COUNT] = {
		[COMMAND_OK] = "ok",
		[COMMAND_NONZERO] = "nonzero",
		[COMMAND_NOT_FOUND] = "not_started",
		[COMMAND_KILLED] = "killed",
		[COMMAND_LOST] = "lost",
		[COMMAND_REFUSED] = "refused",
	};

	return words[end];
}

const char *create_end_word(enum create_end end)
{
	return end == CREATE_OK ? "ok" : "failed";
}

void histogram_add(struct histogram *histogram, double seconds)
{
	unsigned i = 0;

	while (i < HISTOGRAM_BOUNDS && seconds > histogram_bounds[i])
		i++;
	histogram->buckets[i]++;
	histogram->sum += seconds;
}

static enum command_end end_of(const struct command_result *result)
{
	if (result->start_error[0])
		return COMMAND_NOT_FOUND;
	if (result->infra_failure)
		return COMMAND_LOST;
	if (result->reason != REASON_NONE)
		return COMMAND_KILLED;
	return result->returncode == 0 ? COMMAND_OK : COMMAND_NONZERO;
}

void metrics_add_command(
	struct metrics *metrics, const struct command_result *result, enum reason refused)
{
	if (!result) {
		metrics->commands[COMMAND_REFUSED][refused]++;
		return;
	}
	metrics->commands[end_of(result)][result->reason]++;
	histogram_add(&metrics->command_seconds, result->duration_sec);
}

void metrics_add_output(struct metrics *metrics, const struct command_result *result)
{
	metrics->stdout_bytes += result->out_bytes;
	metrics->stderr_bytes += result->err_bytes;
}

void metrics_add_create(struct metrics *metrics, int r, enum reason reason, uint64_t waited_ms)
{
	metrics->creates[r == 0 ? CREATE_OK : CREATE_FAILED][r == 0 ? REASON_NONE : reason]++;
	histogram_add(&metrics->create_seconds, (double)waited_ms / 1000);
}
