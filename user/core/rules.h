/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header rules of routes (set_header, drop_header and those of replies). Those of requests are applied
 * while the metadata block is written. Values of replies that say something of the request, which is
 * gone by then, are kept with the exchange from its begin on:
 *
 *   begin -> sl_rules_keep_reply -> x->said       head of the reply -> sl_rules_apply_reply
 */
#ifndef SL_CORE_RULES_H
#define SL_CORE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include "base/bytes.h"

struct sl_cfg_rules;
struct sl_exchange;
struct sl_reply_parts;
struct sl_request;
struct sl_tlv_writer;

/* Bytes of core->rule_buf: of values that are kept, and of values that are rewritten. */
size_t sl_rules_room(void);

/* Returns true if a client's field of this name is not passed on as it came: a rule has the name. */
bool sl_rules_hide(const struct sl_cfg_rules *rules, struct sl_span name);
/* Writes the fields that the rules of the route set, and those whose values they rewrite. */
void sl_rules_put_request(struct sl_tlv_writer *w, const struct sl_exchange *x,
			  const struct sl_request *rq);
/* Keeps what the reply says of the request. Returns false if there is no frame, or it is too long. */
bool sl_rules_keep_reply(struct sl_exchange *x, const struct sl_request *rq);
/* Applies the rules to the fields of a reply. Returns false if there is no room for another field. */
bool sl_rules_apply_reply(const struct sl_exchange *x, struct sl_reply_parts *out);

#endif
