/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <unistd.h>

#include "base/error.h"
#include "config/settings.h"
#include "pool/net-nat.h"
#include "tools/doctor.h"

void check_nat(struct doctor *doctor)
{
	const struct config *config = doctor->config;
	struct error err = ERROR_NONE;

	if (config->slot.network != NETWORK_NAT)
		doctor_ok(doctor, "network is not nat: slirp4netns is not needed");
	else if (net_nat_check(geteuid() == 0 ? config->slot.uid_base : geteuid(), &err) < 0)
		doctor_fail(
			doctor, "do as it says, or set slot.network to forward", "%s", err.text);
	else
		doctor_ok(doctor, "slirp4netns is there, and slots may open /dev/net/tun");
}
