/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fs/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "config/settings.h"
#include "fs/control.h"
#include "fs/inode.h"
#include "fs/input.h"
#include "fs/job.h"
#include "fs/output.h"
#include "pool/command.h"
#include "providers/lease-exec.h"

enum { NAME_MAX_SIZE = 16 };

static struct node node_of(const struct node *parent, struct lease_exec *exec)
{
	struct node node = *parent;

	node.kind = NODE_EXEC;
	node.object = lease_exec_serial(exec);
	node.exec = exec;
	return node;
}

int commands_find(const struct node *parent, const char *name, struct node *ret_node)
{
	char expected[NAME_MAX_SIZE];
	struct lease_exec *exec;
	unsigned number = 0;

	if (sscanf(name, "%9u", &number) != 1)
		return -ENOENT;
	(void)snprintf(expected, sizeof(expected), "%u", number);
	exec = strcmp(name, expected) == 0 ? lease_exec_find(parent->lease, number) : NULL;
	if (!exec)
		return -ENOENT;
	*ret_node = node_of(parent, exec);
	return 0;
}

void commands_each(const struct node *parent, tree_visit_fn *visit, void *data)
{
	char name[NAME_MAX_SIZE];

	for (struct lease_exec *exec = lease_exec_next(parent->lease, NULL); exec;
		exec = lease_exec_next(parent->lease, exec)) {
		struct node node = node_of(parent, exec);

		(void)snprintf(name, sizeof(name), "%u", lease_exec_number(exec));
		visit(data, name, &node);
	}
}

int commands_remove(const struct node *node, struct error *err)
{
	return lease_exec_remove(node->exec, err);
}

double commands_time(const struct node *node)
{
	double ended = lease_exec_ended_at(node->exec);

	if (node_is_output(node->kind))
		return output_time(node);
	return ended > 0 ? ended : lease_exec_started_at(node->exec);
}

void commands_changed(struct control *control, struct lease_exec *exec, unsigned changes)
{
	uint64_t serial = lease_exec_serial(exec);

	if (changes & (LEASE_EXEC_OUT | LEASE_EXEC_ENDED))
		output_wake(control, node_ino(NODE_EXEC_STDOUT, serial));
	if (changes & (LEASE_EXEC_ERR | LEASE_EXEC_ENDED))
		output_wake(control, node_ino(NODE_EXEC_STDERR, serial));
	if (changes & (LEASE_EXEC_CAN_FEED | LEASE_EXEC_ENDED | LEASE_EXEC_WENT))
		input_wake(control, node_ino(NODE_EXEC_STDIN, serial));
	if (changes & LEASE_EXEC_ENDED)
		verb_exec_wait_ended(control, exec);
	if (changes & LEASE_EXEC_WENT)
		inode_forget_command(control, serial);
}

void render_exec_argv(struct control *control, const struct node *node, struct strbuf *out)
{
	const struct command *command = lease_exec_command(node->exec);
	char *const *words =
		command->script ? control->config->exec.shell.words : (char *const *)command->argv;
	const char *separator = "[";

	for (; words && *words; words++) {
		strbuf_adds(out, separator);
		json_add_cstring(out, *words);
		separator = ",";
	}
	if (command->script) {
		strbuf_adds(out, separator);
		json_add_cstring(out, command->script);
	}
	strbuf_adds(out, "]\n");
}

void render_exec_status(struct control *control, const struct node *node, struct strbuf *out)
{
	(void)control;
	lease_exec_render_status(node->exec, out);
}
