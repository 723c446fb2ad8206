/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test-variables.c: each variable that users know does what it says.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "loading.h"

/* What one variable, alone in the environment, leads to. */
enum outcome {
	SHOWS,   /* this line of `config show --origin`, with the variable as its origin */
	DERIVES, /* this line, with the variable named in its origin */
	REFUSED, /* the load fails, with this in the sentence */
	SAYS,    /* this in a remark about the variable, at info */
	QUIET,   /* nothing: it is right, and matters elsewhere */
};

static const struct {
	const char *name, *value;
	enum outcome outcome;
	const char *text;
} cases[] = {
	{"DRESSAGE_SANDBOX_PROVIDER", "local_bwrap", SHOWS, "dressage.provider = local_bwrap"},
	{"DRESSAGE_PADDOCK_MODE", "whitebox", SHOWS, "dressage.paddock_mode = whitebox"},
	{"DRESSAGE_LOCAL_BWRAP_POOL_MODE", "command", SHOWS, "pool.mode = command_only"},
	{"DRESSAGE_LOCAL_BWRAP_BACKEND", "ray_pool", QUIET, NULL},
	{"DRESSAGE_LOCAL_BWRAP_TOTAL_SERVERS", "3", DERIVES, "pool.slots = 3"},
	{"DRESSAGE_BLACKBOX_SLOTS_PER_NODE", "16", SHOWS, "pool.slots = 16"},
	{"DRESSAGE_LOCAL_BWRAP_BASE_PORT", "32000", SHOWS, "pool.base_port = 32000"},
	{"DRESSAGE_LOCAL_BWRAP_SLOT_BASE_DIR", "/var/slots", SHOWS, "pool.slot_dir = /var/slots"},
	{"DRESSAGE_BLACKBOX_SLOT_BASE_DIR", "/var/slots", SHOWS, "pool.slot_dir = /var/slots"},
	{"DRESSAGE_LOCAL_BWRAP_MANAGER_NAME", "m", SAYS, "this daemon is the manager"},
	{"DRESSAGE_LOCAL_BWRAP_RAY_NAMESPACE", "n", SAYS, "this daemon is the manager"},
	{"DRESSAGE_LOCAL_BWRAP_WAIT_READY_TIMEOUT_SEC", "30", SHOWS,
		"pool.wait_ready_timeout = 30s"},
	{"DRESSAGE_BLACKBOX_BIND_HOST", "10.1.2.3", SHOWS, "pool.bind_host = 10.1.2.3"},
	{"DRESSAGE_BLACKBOX_ADVERTISE_IP", "10.1.2.3", SHOWS, "pool.advertise_ip = 10.1.2.3"},
	{"DRESSAGE_BLACKBOX_TYPE", "codex", SHOWS, "blackbox.type = codex"},
	{"DRESSAGE_BLACKBOX_SERVER_COMMAND", "srv {port} ; x", SHOWS,
		"blackbox.server_command = srv {port} ; x"},
	{"DRESSAGE_BLACKBOX_SERVER_MODULE", "my.mod", SHOWS, "blackbox.server_module = my.mod"},
	{"DRESSAGE_BLACKBOX_PYTHON_BIN", "/opt/py", SHOWS, "blackbox.python = /opt/py"},
	{"DRESSAGE_BLACKBOX_RUNNER_MODE", "bubblewrap", SHOWS, "slot.runner = bwrap"},
	{"DRESSAGE_BLACKBOX_BWRAP_BIN", "/opt/bwrap", SHOWS, "slot.bwrap = /opt/bwrap"},
	{"DRESSAGE_BLACKBOX_BUBBLEWRAP_BIN", "/opt/bwrap", SHOWS, "slot.bwrap = /opt/bwrap"},
	{"DRESSAGE_BLACKBOX_BWRAP_EXTRA_ARGS", "--hostname 'a b'", SHOWS,
		"slot.bwrap_args = --hostname 'a b'"},
	{"DRESSAGE_BLACKBOX_ROOTFS", "/srv/root", SHOWS, "slot.rootfs = /srv/root"},
	{"DRESSAGE_BLACKBOX_READONLY_MOUNTS", "/usr:/opt", SHOWS,
		"slot.readonly_mounts = /usr:/opt"},
	{"DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET", "0", SHOWS, "slot.network = host"},
	{"DRESSAGE_BLACKBOX_BWRAP_UNSHARE_PID", "0", SAYS,
		"slots always have process ids of their own"},
	{"DRESSAGE_BLACKBOX_BWRAP_DISABLE_USERNS", "0", SAYS, "user namespaces are always off"},
	{"DRESSAGE_BLACKBOX_SLOT_UID", "0", SHOWS, "slot.uid = 0"},
	{"DRESSAGE_BLACKBOX_SLOT_GID", "0", SHOWS, "slot.gid = 0"},
	{"DRESSAGE_BLACKBOX_USE_SYSTEMD_SCOPE", "1", SAYS, "limits are set through cgroups"},
	{"DRESSAGE_BLACKBOX_MEMORY_HIGH_BYTES", "1073741824", SHOWS, "slot.memory_high = 1G"},
	{"DRESSAGE_BLACKBOX_MEMORY_MAX_BYTES", "3221225472", SHOWS, "slot.memory_max = 3G"},
	{"DRESSAGE_BLACKBOX_PIDS_MAX", "128", SHOWS, "slot.pids_max = 128"},
	{"DRESSAGE_BLACKBOX_NOFILE", "512", SHOWS, "slot.nofile = 512"},
	{"DRESSAGE_BLACKBOX_STARTUP_TIMEOUT_SEC", "90", SHOWS, "blackbox.startup_timeout = 90s"},
	{"DRESSAGE_BLACKBOX_HEALTH_INTERVAL_SEC", "0.5", SHOWS, "blackbox.health_interval = 500ms"},
	{"DRESSAGE_BLACKBOX_HEALTH_TIMEOUT_SEC", "1.5", SHOWS, "blackbox.health_timeout = 1500ms"},
	{"DRESSAGE_BLACKBOX_SKIP_HEALTHCHECK", "true", SHOWS, "blackbox.skip_healthcheck = on"},
	{"DRESSAGE_BLACKBOX_STOP_TIMEOUT_SEC", "3", SHOWS, "blackbox.stop_timeout = 3s"},
	{"DRESSAGE_BLACKBOX_RESET_STRATEGY", "soft", SHOWS, "pool.reset = soft"},
	{"DRESSAGE_BLACKBOX_ACQUIRE_TIMEOUT_SEC", "7.5", SHOWS, "pool.acquire_timeout = 7500ms"},
	{"DRESSAGE_BLACKBOX_LEASE_TTL_SEC", "60", SHOWS, "pool.lease_ttl = 1m"},
	{"DRESSAGE_BLACKBOX_RUNTIME_PREFIX", "/opt/x", SHOWS, "blackbox.runtime_prefix = /opt/x"},
	{"DRESSAGE_BLACKBOX_ACQUIRE_POLL_SEC", "0.5", SAYS, "nothing polls"},
	{"DRESSAGE_BLACKBOX_STATUS_REFRESH_SEC", "5", SAYS, "the status is always current"},
	{"DRESSAGE_BLACKBOX_NODE_ACQUIRE_TIMEOUT_SEC", "5", SAYS, "acquire_timeout stands"},
	{"DRESSAGE_BLACKBOX_NODE_ACQUIRE_POLL_SEC", "5", SAYS, "nothing polls"},
	{"DRESSAGE_BLACKBOX_BACKGROUND_RELEASE_TIMEOUT_SEC", "5", SAYS,
		"a slot is reset as soon as"},
	{"DRESSAGE_BLACKBOX_CLEANUP_RESIDUAL_PROCESSES", "1", SAYS, "no process outlives"},
	{"DRESSAGE_BLACKBOX_RESIDUAL_CLEANUP_TIMEOUT_SEC", "5", SAYS, "no process outlives"},
	{"DRESSAGE_BLACKBOX_DISABLE_PROC", "1", SAYS, "slots always have a /proc"},
	{"DRESSAGE_BLACKBOX_SYSTEMD_RUN_BIN", "x", SAYS, "limits are set through cgroups"},
	{"DRESSAGE_LOCAL_BWRAP_RAY_ADDRESS", "auto", SAYS, "the pool does not run on Ray"},
	{"DRESSAGE_RAY_ADDRESS", "auto", SAYS, "the pool does not run on Ray"},
	{"DRESSAGE_LOCAL_BWRAP_DESTROY_ACTORS_ON_STOP", "1", SAYS, "there are no actors"},
	{"DRESSAGE_BLACKBOX_PORT", "31001", SHOWS, "e2b.blackbox_port = 31001"},
	{"DRESSAGE_LOCAL_BWRAP_BLACKBOX_PORT", "31001", SAYS,
		"there is no server in a command_only pool"},
	{"DRESSAGE_E2B_BLACKBOX_PORT", "31001", SHOWS, "e2b.blackbox_port = 31001"},
	{"DRESSAGE_PROXY_URL", "http://proxy:4000", QUIET, NULL},
	{"DRESSAGE_BLACKBOX_PRESERVE_SESSION_ARTIFACTS", "1", REFUSED,
		"[archive] enabled = on (DRESSAGE_BLACKBOX_PRESERVE_SESSION_ARTIFACTS) is not there yet"},
	{"DRESSAGE_BLACKBOX_SESSION_ARCHIVE_DIRS", "home,work", SHOWS, "archive.dirs = home,work"},
	{"DRESSAGE_BLACKBOX_SESSION_ARCHIVE_MAX_PER_SLOT", "0", SHOWS, "archive.max_per_slot = 0"},
	{"DRESSAGE_BLACKBOX_SESSION_ARCHIVE_TTL_SEC", "3600", SHOWS, "archive.ttl = 1h"},
	{"DRESSAGE_E2B_API_KEY", "k", SHOWS, "e2b.api_key = ***"},
	{"E2B_API_KEY", "k", SHOWS, "e2b.api_key = ***"},
	{"DRESSAGE_SANDBOX_DEFAULT_IMAGE", "base", SHOWS, "e2b.template = base"},
	{"DRESSAGE_E2B_TIMEOUT_SEC", "600", SHOWS, "e2b.timeout = 10m"},
	{"E2B_API_URL", "http://127.0.0.1:3000", SHOWS, "e2b.api_url = http://127.0.0.1:3000"},
	{"E2B_DOMAIN", "example.com", SHOWS, "e2b.domain = example.com"},
	{"E2B_SANDBOX_URL", "http://127.0.0.1:3001", SHOWS,
		"e2b.sandbox_url = http://127.0.0.1:3001"},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

static void check_case(size_t i)
{
	char variable[128], line[256];
	struct given given = {.variables = NAMES(variable)};

	(void)snprintf(variable, sizeof(variable), "%s=%s", cases[i].name, cases[i].value);
	switch (cases[i].outcome) {
	case SHOWS:
		(void)snprintf(line, sizeof(line), "%s  ; %s\n", cases[i].text, cases[i].name);
		assert_shows(&given, line);
		return;
	case DERIVES:
		(void)snprintf(line, sizeof(line), "%s  ; from %s\n", cases[i].text, cases[i].name);
		assert_shows(&given, line);
		return;
	case REFUSED:
		assert_refused(&given, EOPNOTSUPP, cases[i].text);
		return;
	case SAYS:
		(void)snprintf(
			line, sizeof(line), "%d %s has no effect: ", LOG_LEVEL_INFO, cases[i].name);
		assert_remarks(&given, line);
		assert_remarks(&given, cases[i].text);
		return;
	case QUIET:
		assert_no_remarks(&given);
		return;
	}
}

static void every_variable_does_what_it_says(void **state)
{
	size_t i;

	for (i = 0; i < CASES; i++)
		check_case(i);
}

static bool has_case(const char *name)
{
	size_t i;

	for (i = 0; i < CASES; i++) {
		if (strcmp(cases[i].name, name) == 0)
			return true;
	}
	return false;
}

static void every_variable_of_the_table_is_tried_here(void **state)
{
	const char *const *variable;
	const struct setting *row;

	for (row = settings; row < settings + settings_count; row++) {
		for (variable = row->env; variable && *variable; variable++) {
			if (!has_case(*variable))
				fail_with("no case for a variable", *variable, "");
		}
	}
}

static void the_backend_variable_takes_only_ray_pool(void **state)
{
	assert_refused(&(struct given){.variables = NAMES("DRESSAGE_LOCAL_BWRAP_BACKEND=docker")},
		EINVAL, "this variable no longer selects a backend; unset it");
}

static void a_provider_that_nobody_knows_is_refused_with_both_names(void **state)
{
	assert_refused(&(struct given){.variables = NAMES("DRESSAGE_SANDBOX_PROVIDER=docker")},
		EINVAL,
		"DRESSAGE_SANDBOX_PROVIDER = 'docker' is not one of the words known here; allowed: local_bwrap | e2b");
}

static void unshare_net_is_host_or_forward(void **state)
{
	assert_shows(
		&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET=false")},
		"slot.network = host  ; DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET");
	assert_shows(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET=1")},
		"slot.network = forward  ; DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET");
	assert_refused(
		&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET=nat")},
		EINVAL,
		"DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET = 'nat' is not one of the words known here; allowed: 0 | 1");
	assert_shows(&(struct given){.variables = NAMES("DRESSAGE_BLACKBOX_BWRAP_UNSHARE_NET=1"),
			     .options = NAMES("slot.network=none")},
		"slot.network = none  ; -o");
}

static void the_port_of_the_blackbox_service_comes_from_its_newest_variable(void **state)
{
	struct loaded loaded =
		load(&(struct given){.variables = NAMES("DRESSAGE_LOCAL_BWRAP_BLACKBOX_PORT=1",
					     "DRESSAGE_BLACKBOX_PORT=2")});

	assert_int_equal(loaded.r, 0);
	assert_int_equal(loaded.config->blackbox.port, 1);
	assert_int_equal(loaded.config->e2b.blackbox_port, 2);
	unload(&loaded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_variable_does_what_it_says),
		cmocka_unit_test(every_variable_of_the_table_is_tried_here),
		cmocka_unit_test(the_backend_variable_takes_only_ray_pool),
		cmocka_unit_test(a_provider_that_nobody_knows_is_refused_with_both_names),
		cmocka_unit_test(unshare_net_is_host_or_forward),
		cmocka_unit_test(the_port_of_the_blackbox_service_comes_from_its_newest_variable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
