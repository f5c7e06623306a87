/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the way to servers with via = auto. */
#ifndef SL_GATEWAY_WAYS_H
#define SL_GATEWAY_WAYS_H

#include "config/config.h"

struct sl_gateway;

/*
 * Decides for servers with via = auto: sets `way` and `way_why`. `g`: NULL: not running, so that
 * the interfaces are those of `cfg`. Control thread.
 */
void sl_ways_choose(const struct sl_gateway *g, struct sl_config *cfg);

#endif
