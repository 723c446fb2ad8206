/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "config/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LONGEST = 80 };

static bool same(char a, char b)
{
	return strncasecmp(&a, &b, 1) == 0;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t cell(size_t rows[3][LONGEST + 1], const char *a, const char *b, size_t i, size_t j)
{
	size_t *before = rows[(i + 1) % 3], *above = rows[(i + 2) % 3], *row = rows[i % 3];
	size_t cost =
		least(least(above[j], row[j - 1]) + 1, above[j - 1] + !same(a[i - 1], b[j - 1]));

	if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
		cost = least(cost, before[j - 2] + 1);
	return cost;
}

size_t edit_distance(const char *a, const char *b)
{
	size_t rows[3][LONGEST + 1], a_len = strlen(a), b_len = strlen(b), i, j;

	if (a_len > LONGEST || b_len > LONGEST)
		return SIZE_MAX;
	for (j = 0; j <= b_len; j++)
		rows[0][j] = j;
	for (i = 1; i <= a_len; i++) {
		rows[i % 3][0] = i;
		for (j = 1; j <= b_len; j++)
			rows[i % 3][j] = cell(rows, a, b, i, j);
	}
	return rows[a_len % 3][b_len];
}

size_t suggest_limit(const char *typed)
{
	size_t len = strlen(typed);

	if (len < 4)
		return 1;
	return len < 9 ? 2 : len < 12 ? 3 : 4;
}

void suggest_consider(struct suggestion *suggestion, const char *candidate)
{
	size_t distance = edit_distance(suggestion->typed, candidate);

	if (distance > suggest_limit(suggestion->typed))
		return;
	if (suggestion->best && distance >= suggestion->distance)
		return;
	suggestion->best = candidate;
	suggestion->distance = distance;
}
