/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header rules of routes (set_header, drop_header, and those for replies). Rules for requests apply
 * while the metadata block is written. Values of replies that depend on the request are kept:
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

/* Returns the size of core->rule_buf. */
size_t sl_rules_room(void);

/* Returns true if a rule replaces the client's field. */
bool sl_rules_hide(const struct sl_cfg_rules *rules, struct sl_span name);
/* Writes fields that rules set or rewrite. */
void sl_rules_put_request(struct sl_tlv_writer *w, const struct sl_exchange *x,
			  const struct sl_request *rq);
/* Keeps values for the reply. False: no frame, or too long. */
bool sl_rules_keep_reply(struct sl_exchange *x, const struct sl_request *rq);
/* Applies rules to a reply. False: too many fields. */
bool sl_rules_apply_reply(const struct sl_exchange *x, struct sl_reply_parts *out);

#endif
