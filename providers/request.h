/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * request.h: what all decoders of requests share. Threads: any.
 */
#ifndef PROVIDERS_REQUEST_H
#define PROVIDERS_REQUEST_H

#include <cjson/cJSON.h>
#include <stddef.h>

struct error;

#define REQUEST_SECONDS_MAX 1e9 /* of every time that a request names: 31 years */

/* -EINVAL with line and column when the text holds a NUL or is not UTF-8, or when it is nothing but
 * blanks (what names it then). */
int request_check_text(const char *text, size_t size, const char *what, struct error *err);

/* -EINVAL unless every key of the object can be the name of an environment variable. map may be
 * NULL. */
int request_check_env(const cJSON *map, struct error *err);

#endif
