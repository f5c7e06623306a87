/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that count through a file and what it includes, and the files they are of. */
#include "config/config.h"

struct sl_cfg_location sl_config_location(const struct sl_config *c, int line)
{
	uint32_t low = 0, high = c->piece_cnt;

	/* The last piece that does not begin behind the line. */
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (c->pieces[middle].first <= line)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return (struct sl_cfg_location){c->file, line};
	return (struct sl_cfg_location){c->pieces[low - 1].at.file,
					c->pieces[low - 1].at.line + line -
						c->pieces[low - 1].first};
}
