/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How long a lease lives: by its TTL, or, from when its hold was first opened, by its holders. An
 * EXPIRED one is kept for a while.
 */
#include <errno.h>
#include <math.h>

#include "base/clock.h"
#include "config/settings.h"
#include "providers/lease-table.h"
#include "providers/request.h"

uint64_t lease_clock_ms(const struct lease_table *table)
{
	return loop_now_ms() + table->skipped_ms;
}

static void set_alarm(struct lease *lease, uint64_t delay_ms)
{
	lease->alarm_ms = lease_clock_ms(lease->table) + delay_ms;
	loop_timer_restart(lease->timer, delay_ms);
}

void lease_table_skip(struct lease_table *table, uint64_t skip_ms)
{
	struct lease *lease;
	uint64_t now;

	table->skipped_ms += skip_ms;
	now = lease_clock_ms(table);
	DL_FOREACH (table->shown, lease)
		set_alarm(lease, lease->alarm_ms > now ? lease->alarm_ms - now : 0);
}

static void set_no_deadline(struct lease *lease)
{
	lease->deadline_ms = 0;
	lease->deadline = 0;
	set_alarm(lease, SANDBOX_WAIT);
}

static void set_deadline(struct lease *lease, uint64_t left_ms, enum reason reason)
{
	lease->deadline_ms = lease_clock_ms(lease->table) + left_ms;
	lease->deadline = unix_now() + (double)left_ms / 1000;
	lease->deadline_reason = reason;
	set_alarm(lease, left_ms);
}

static void expire(struct lease *lease)
{
	lease->why[0] = '\0';
	lease_set_state(lease, LEASE_EXPIRED, lease->deadline_reason);
	set_alarm(lease, LEASE_KEEP_EXPIRED_MS);
	lease_give_back(lease, lease->deadline_reason);
}

static void handle_alarm(void *data)
{
	struct lease *lease = data;

	if (lease->state == LEASE_EXPIRED)
		lease_end(lease, lease->reason, NULL);
	else if (lease->deadline_reason == REASON_HOLD_RELEASED)
		lease_end(lease, REASON_HOLD_RELEASED, NULL);
	else
		expire(lease);
}

static uint64_t first_ttl_ms(const struct lease *lease)
{
	if (lease->spec.timeout_sec > 0)
		return (uint64_t)ceil(lease->spec.timeout_sec * 1000);
	return lease->table->config->pool.lease_ttl_ms;
}

int lease_time_begin(struct lease *lease, struct error *err)
{
	uint64_t ttl_ms = first_ttl_ms(lease);
	int r = loop_timer_start(
		lease->table->loop, SANDBOX_WAIT, handle_alarm, lease, &lease->timer, err);

	if (r < 0)
		return r;
	if (ttl_ms)
		set_deadline(lease, ttl_ms, REASON_LEASE_TTL_EXPIRED);
	else
		set_no_deadline(lease);
	return 0;
}

double lease_seconds_left(const struct lease *lease)
{
	uint64_t now = lease_clock_ms(lease->table);

	if (lease->state != LEASE_ACTIVE && lease->state != LEASE_LOST)
		return lease->deadline_ms ? 0 : -1;
	if (!lease->deadline_ms)
		return -1;
	return now < lease->deadline_ms ? (double)(lease->deadline_ms - now) / 1000 : 0;
}

double lease_deadline(const struct lease *lease)
{
	return lease->deadline;
}

int lease_renew(struct lease *lease, double seconds, struct error *err)
{
	int r = lease_check_active(lease, err);

	if (r < 0)
		return r;
	if (!(seconds > 0 && seconds <= REQUEST_SECONDS_MAX))
		return error_set(err, EINVAL,
			"the time left must be above 0 and at most 1e9 seconds, not %g", seconds);
	if (lease->holders > 0)
		return 0;
	set_deadline(lease, (uint64_t)ceil(seconds * 1000), REASON_LEASE_TTL_EXPIRED);
	lease_write_row(lease, NULL, NULL);
	return 0;
}

/* hold */

int lease_hold(struct lease *lease, struct error *err)
{
	int r = lease_check_active(lease, err);

	if (r < 0)
		return r;
	if (lease->holders++ > 0)
		return 0;
	set_no_deadline(lease);
	lease_write_row(lease, NULL, NULL);
	return 0;
}

void lease_let_go(struct lease *lease)
{
	if (--lease->holders > 0 || !lease->shown || lease->table->stopping)
		return;
	set_deadline(lease, lease->table->config->pool.hold_grace_ms, REASON_HOLD_RELEASED);
	lease_write_row(lease, NULL, NULL);
}

unsigned lease_holders(const struct lease *lease)
{
	return lease->holders;
}
