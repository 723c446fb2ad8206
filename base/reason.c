/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "base/reason.h"

static const struct {
	const char *word, *meaning;
} reasons[REASON_COUNT] = {[REASON_NONE] = {"", ""},
#define REASON_ROW_(id, word, meaning) [REASON_##id] = {word, meaning},
	REASONS(REASON_ROW_)
#undef REASON_ROW_
};

const char *reason_word(enum reason reason)
{
	return reasons[reason].word;
}

const char *reason_meaning(enum reason reason)
{
	return reasons[reason].meaning;
}
