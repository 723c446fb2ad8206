/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The program that runs on the slot's side of the wall. Two uses: `enter`, which turns a root
 * daemon's child into the slot's host user and executes bwrap, and `init`, pid 1 of the slot.
 * Static, so that it needs no file in there.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "pool/init/init.h"

static int report_failed(const char *step, int error)
{
	struct init_report report = {
		.version = INIT_PROTOCOL_VERSION, .kind = INIT_FAILED, .error = error};

	strncpy(report.step, step, sizeof(report.step) - 1);
	(void)report_send(&report, -1);
	return 1;
}

static int be_init(void)
{
	struct init_report ready = {.version = INIT_PROTOCOL_VERSION, .kind = INIT_READY};
	const char *step = "";
	int root_fd, landlock, r;

	if (getpid() != 1)
		return report_failed("pid 1", EINVAL);
	r = setup_slot(&root_fd, &landlock, &step);
	if (r < 0)
		return report_failed(step, -r);
	ready.status = landlock;
	if (!report_send(&ready, root_fd))
		return 0;
	(void)close(root_fd);
	serve();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "init") == 0)
		return be_init();
	if (argc > 2 && strcmp(argv[1], "enter") == 0)
		return enter(argc - 2, argv + 2);
	return 2;
}
