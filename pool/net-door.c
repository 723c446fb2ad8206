/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "pool/net-private.h"

static struct net_door **list_of(const struct net_door *door)
{
	return door->outward ? &door->slot->out : &door->slot->in;
}

static bool has_room(const struct net_door *door)
{
	const struct slot_net *slot = door->slot;
	unsigned count = door->outward ? slot->out_count : slot->in_count;

	return !slot->paused && slot->bubble && slot->lent && count < NET_LINKS_MAX;
}

/* The peer of the one that was first in line may be gone already; whoever is next is told later. */
static bool is_passing(int error)
{
	return error == ECONNABORTED || error == EINTR || error == EPROTO || error == ENETDOWN ||
	       error == EHOSTUNREACH || error == ENETUNREACH;
}

static void handle_knock(void *data, unsigned events)
{
	struct net_door *door = data;
	struct slot_net *slot = door->slot;

	for (int i = 0; i < ACCEPTED_PER_TURN && has_room(door); i++) {
		int fd;

		if (slot->net->link_count >= slot->net->link_max) {
			net_doors_pause(slot);
			return;
		}
		fd = accept4(door->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0)
			net_link_begin(door, fd);
		else if (errno == EAGAIN)
			break;
		else if (!is_passing(errno))
			net_doors_pause(slot);
	}
	net_doors_update(slot);
}

int net_door_open(struct slot_net *slot, const struct net_door *what, struct net_door **ret_door)
{
	struct net_door *door = malloc(sizeof(*door));
	int r;

	if (!door)
		return -ENOMEM;
	*door = *what;
	door->slot = slot;
	r = loop_watch_start(slot->net->loop, door->fd, 0, handle_knock, door, &door->watch, NULL);
	if (r < 0) {
		free(door);
		return r;
	}
	DL_APPEND(*list_of(door), door);
	if (ret_door)
		*ret_door = door;
	return 0;
}

/* Of a socket that stays, everybody who is in line gets a reset, and who comes next a refusal. */
void net_door_close(struct net_door *door)
{
	DL_DELETE(*list_of(door), door);
	loop_watch_stop(door->watch);
	if (door->keep)
		(void)shutdown(door->fd, SHUT_RDWR);
	else
		closep(&door->fd);
	free(door);
}

static void update(struct net_door *doors)
{
	struct net_door *door;

	DL_FOREACH (doors, door) {
		bool open = has_room(door);

		if (open == door->is_open)
			continue;
		door->is_open = open;
		loop_watch_events(door->watch, open ? LOOP_READABLE : 0);
	}
}

void net_doors_update(struct slot_net *slot)
{
	update(slot->in);
	update(slot->out);
}

void net_handle_pause_over(void *data)
{
	struct slot_net *slot = data;

	slot->paused = false;
	net_doors_update(slot);
}

void net_doors_pause(struct slot_net *slot)
{
	slot->paused = true;
	loop_timer_restart(slot->pause, PAUSE_MS);
	net_doors_update(slot);
}
