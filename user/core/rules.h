/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header rules of routes (set_header, drop_header, and those for replies). Rules for requests are
 * applied while the metadata block is written. Values of replies that depend on the request are
 * computed at its begin and kept:
 *
 *   begin -> sl_rules_keep_reply -> x->rule_values    head of the reply -> sl_rules_apply_reply
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

/* Returns the size of core->rule_buf: kept and rewritten values. */
size_t sl_rules_room(void);

/* Returns true if a rule has the name, so that the client's field is not forwarded. */
bool sl_rules_hide(const struct sl_cfg_rules *rules, struct sl_span name);
/* Writes the fields that the route's rules set or rewrite. */
void sl_rules_put_request(struct sl_tlv_writer *w, const struct sl_exchange *x,
			  const struct sl_request *rq);
/* Keeps values for the reply. Returns false if there is no frame, or they are too long. */
bool sl_rules_keep_reply(struct sl_exchange *x, const struct sl_request *rq);
/*
 * Applies the rules to the fields of a reply. Returns false if there is no room for another field.
 */
bool sl_rules_apply_reply(const struct sl_exchange *x, struct sl_reply_parts *out);

#endif
