/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* input.h: the fuzzer's bytes as a row of decisions; those that are missing are 0. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *bytes;
	size_t size;
};

static inline unsigned next_byte(struct input *input)
{
	if (!input->size)
		return 0;
	input->size--;
	return *input->bytes++;
}

#endif
