/* SPDX-License-Identifier: Apache-2.0 */
#include "config/config.h"

struct sl_cfg_location sl_config_location(const struct sl_config *c, int line)
{
	uint32_t low = 0, high = c->piece_cnt;

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
