/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * commands.h: `leases/T/exec/`: a directory for each command of a lease, running or ended, and what
 * its files do when something has come of it.
 *
 *	new             verb_exec_new: a request starts a command, the reply is its number
 *	N/argv status   rendered here
 *	N/wait          verb_exec_wait: the CommandResult, for whoever waits for it
 *	N/signal        verb_exec_signal
 *	N/stdout stderr output.h
 *	N/stdin         input.h
 *
 * A node of a command has the command's serial as its object. Threads: loop.
 */
#ifndef FS_COMMANDS_H
#define FS_COMMANDS_H

#include <sys/types.h>

#include "fs/render.h"
#include "fs/tree.h"

struct error;
struct lease_exec;

/* A command by its number. -ENOENT. */
int commands_find(const struct node *parent, const char *name, struct node *ret_node);
void commands_each(const struct node *parent, tree_visit_fn *visit, void *data);
/* rmdir exec/N. -EBUSY: it runs. */
int commands_remove(const struct node *node, struct error *err);
/* When it began or, once it has ended, when that was; of an output when something was written.
 * Unix seconds. */
double commands_time(const struct node *node);

/* Something has come of a command (enum lease_exec_change): readers, writers and pollers of its
 * files are told. */
void commands_changed(struct control *control, struct lease_exec *exec, unsigned changes);

render_fn render_exec_argv;   /* its words, a JSON array and a newline */
render_fn render_exec_status; /* docs/commands.md lists the keys */

#endif
