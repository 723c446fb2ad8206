/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* metrics: one table of all that there are (docs/observability.md has the same), in Prometheus'
 * text format. */
#define FUSE_USE_VERSION 318
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "fs/control.h"
#include "fs/render.h"
#include "fs/request.h"
#include "pool/events.h"
#include "pool/metrics.h"
#include "pool/pool.h"
#include "providers/lease.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { LEASE_STATE_COUNT = LEASE_LOST + 1 };

/* What a scrape looks at; the slots are counted once. */
struct sight {
	const struct control *control;
	const struct metrics *metrics;
	struct pool *pool; /* NULL: the provider has none */
	unsigned slots_in[SLOT_STATE_COUNT];
	unsigned commands;
};

struct family {
	const char *name, *type, *help;
	void (*add)(const struct family *family, const struct sight *sight, struct strbuf *out);
};

static void sample(const struct family *family, double value, struct strbuf *out)
{
	strbuf_addf(out, "%s %.17g\n", family->name, value);
}

static void labelled(const struct family *family, const char *label, const char *word,
	uint64_t value, struct strbuf *out)
{
	strbuf_addf(
		out, "%s{%s=\"%s\"} %llu\n", family->name, label, word, (unsigned long long)value);
}

/* What is there now */

static void add_build_info(
	const struct family *family, const struct sight *sight, struct strbuf *out)
{
	strbuf_addf(out, "%s{version=\"%s\",provider=\"%s\",libfuse=\"%s\"} 1\n", family->name,
		DRESSAGE_VERSION, sight->control->config->dressage.provider, fuse_pkgversion());
}

static void add_start_time(
	const struct family *family, const struct sight *sight, struct strbuf *out)
{
	strbuf_addf(out, "%s %.3f\n", family->name, sight->control->started_at);
}

static void add_slots(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	for (unsigned i = 0; i < SLOT_STATE_COUNT; i++)
		labelled(family, "state", slot_state_name((enum slot_state)i), sight->slots_in[i],
			out);
}

static void add_leases(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	for (unsigned i = 0; i < LEASE_STATE_COUNT; i++)
		if (i != LEASE_RELEASED) /* not in the tree any more: lease_ends counts them */
			labelled(family, "state", lease_state_name((enum lease_state)i),
				lease_count(sight->control->leases, (enum lease_state)i), out);
}

static void add_queue(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	sample(family, sight->pool ? pool_queue_length(sight->pool) : 0, out);
}

static void add_draining(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	sample(family, sight->pool && pool_is_draining(sight->pool), out);
}

static void add_running(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	sample(family, sight->commands, out);
}

static void add_held(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	sample(family, request_held_count(sight->control), out);
}

/* Resident pages: the second number. procfs answers from memory. */
static void add_memory(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	CLEANUP(fclosep) FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages;

	if (file && fscanf(file, "%*u %lu", &pages) == 1)
		sample(family, (double)pages * (double)sysconf(_SC_PAGESIZE), out);
}

/* Since Linux 6.2 the directory's size is their number; before, nobody counts them for us. */
static void add_open_fds(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	struct stat st;

	if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
		sample(family, (double)st.st_size, out);
}

static void add_max_fds(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		sample(family, (double)limit.rlim_cur, out);
}

static void add_cpu(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) == 0)
		strbuf_addf(out, "%s %.6f\n", family->name,
			(double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
				(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

/* What was counted */

static void add_events(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	sample(family, (double)events_count(sight->control->events), out);
}

static void add_slot_states(
	const struct family *family, const struct sight *sight, struct strbuf *out)
{
	for (unsigned i = 0; i < SLOT_STATE_COUNT; i++)
		labelled(family, "state", slot_state_name((enum slot_state)i),
			sight->metrics->slot_states[i], out);
}

/* Of two labels only what has happened is shown, and the ordinary, from the start. */
static void add_pair(const struct family *family, const char *result, const uint64_t *by_reason,
	bool always, struct strbuf *out)
{
	for (unsigned i = 0; i < REASON_COUNT; i++)
		if (by_reason[i] > 0 || (always && i == REASON_NONE))
			strbuf_addf(out, "%s{result=\"%s\",reason=\"%s\"} %llu\n", family->name,
				result, reason_word((enum reason)i),
				(unsigned long long)by_reason[i]);
}

static void add_creates(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	for (unsigned i = 0; i < CREATE_END_COUNT; i++)
		add_pair(family, create_end_word((enum create_end)i), sight->metrics->creates[i],
			i == CREATE_OK, out);
}

static void add_commands(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	for (unsigned i = 0; i < COMMAND_END_COUNT; i++)
		add_pair(family, command_end_word((enum command_end)i), sight->metrics->commands[i],
			i == COMMAND_OK || i == COMMAND_NONZERO, out);
}

static void add_lease_ends(
	const struct family *family, const struct sight *sight, struct strbuf *out)
{
	for (unsigned i = 0; i < REASON_COUNT; i++)
		if (sight->metrics->lease_ends[i] > 0 || i == REASON_TERMINATED)
			labelled(family, "reason", reason_word((enum reason)i),
				sight->metrics->lease_ends[i], out);
}

static void add_output(const struct family *family, const struct sight *sight, struct strbuf *out)
{
	labelled(family, "stream", "stdout", sight->metrics->stdout_bytes, out);
	labelled(family, "stream", "stderr", sight->metrics->stderr_bytes, out);
}

static void add_histogram(
	const struct family *family, const struct histogram *histogram, struct strbuf *out)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < HISTOGRAM_BOUNDS; i++) {
		total += histogram->buckets[i];
		strbuf_addf(out, "%s_bucket{le=\"%g\"} %llu\n", family->name, histogram_bounds[i],
			(unsigned long long)total);
	}
	total += histogram->buckets[HISTOGRAM_BOUNDS];
	strbuf_addf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.6f\n%s_count %llu\n", family->name,
		(unsigned long long)total, family->name, histogram->sum, family->name,
		(unsigned long long)total);
}

static void add_command_seconds(
	const struct family *family, const struct sight *sight, struct strbuf *out)
{
	add_histogram(family, &sight->metrics->command_seconds, out);
}

static void add_create_seconds(
	const struct family *family, const struct sight *sight, struct strbuf *out)
{
	add_histogram(family, &sight->metrics->create_seconds, out);
}

static void add_start_seconds(
	const struct family *family, const struct sight *sight, struct strbuf *out)
{
	add_histogram(family, &sight->metrics->slot_start_seconds, out);
}

static void add_reset_seconds(
	const struct family *family, const struct sight *sight, struct strbuf *out)
{
	add_histogram(family, &sight->metrics->slot_reset_seconds, out);
}

static const struct family families[] = {
	{"dressage_build_info", "gauge", "Always 1; the labels say what runs.", add_build_info},
	{"dressage_start_time_seconds", "gauge", "Unix time of the daemon's start.",
		add_start_time},
	{"dressage_slots", "gauge", "Slots by state, now.", add_slots},
	{"dressage_slot_states_total", "counter", "How often slots reached each state.",
		add_slot_states},
	{"dressage_slot_start_seconds", "histogram",
		"From the beginning of a slot's start to READY.", add_start_seconds},
	{"dressage_slot_reset_seconds", "histogram",
		"From a slot's release to READY again, resets without a failure.",
		add_reset_seconds},
	{"dressage_leases", "gauge", "Leases by state, now.", add_leases},
	{"dressage_lease_ends_total", "counter", "Leases that stopped being ACTIVE, by reason.",
		add_lease_ends},
	{"dressage_queue_length", "gauge", "Creates that wait for a slot, now.", add_queue},
	{"dressage_draining", "gauge", "1 while no new leases are taken.", add_draining},
	{"dressage_creates_total", "counter", "Answers to create and mkdir, by result and reason.",
		add_creates},
	{"dressage_create_wait_seconds", "histogram",
		"From a create's request to its answer, whatever it was.", add_create_seconds},
	{"dressage_commands_running", "gauge", "Commands that run, now.", add_running},
	{"dressage_commands_total", "counter", "Commands that ended, by result and reason.",
		add_commands},
	{"dressage_command_duration_seconds", "histogram",
		"From a command's start to its end, of all that reached a slot.",
		add_command_seconds},
	{"dressage_command_output_bytes_total", "counter",
		"Bytes that commands wrote, by stream, counted at their end.", add_output},
	{"dressage_events_total", "counter", "Lines that events has had.", add_events},
	{"dressage_fuse_held_requests", "gauge",
		"Requests of clients that wait for something to happen, now.", add_held},
	{"dressage_resident_memory_bytes", "gauge", "Memory of the daemon itself.", add_memory},
	{"dressage_cpu_seconds_total", "counter", "Processor time of the daemon itself.", add_cpu},
	{"dressage_open_fds", "gauge", "Descriptors that the daemon has open (Linux 6.2).",
		add_open_fds},
	{"dressage_max_fds", "gauge", "Descriptors that it may have open.", add_max_fds},
};

static struct sight look(const struct control *control)
{
	struct sight sight = {.control = control,
		.metrics = events_metrics(control->events),
		.pool = lease_table_pool(control->leases)};
	unsigned count = sight.pool ? pool_slot_count(sight.pool) : 0;

	for (unsigned number = 0; number < count; number++) {
		struct slot_view view = slot_view(pool_slot(sight.pool, number));

		sight.slots_in[view.state]++;
		sight.commands += view.commands;
	}
	return sight;
}

void render_metrics(struct control *control, const struct node *node, struct strbuf *out)
{
	struct sight sight = look(control);

	for (size_t i = 0; i < COUNT(families); i++) {
		const struct family *family = &families[i];

		strbuf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
			family->name, family->type);
		family->add(family, &sight, out);
	}
}
