/* SPDX-License-Identifier: Apache-2.0 */
/* Header rules of routes. */
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

/* Returns the size of core.rule_buf. */
size_t sl_rules_room(void);

/* Returns true if a rule names the client's field, or one that folds to the same name. */
bool sl_rules_hide(const struct sl_cfg_rules *rules, struct sl_span name);
/* Writes the fields that rules set or rewrite; w->full if they do not fit. */
void sl_rules_put_request(struct sl_tlv_writer *w, const struct sl_exchange *x,
			  const struct sl_request *rq);
/* Keeps values in x->rule_values, for replies. Returns false without frames, or if too long. */
bool sl_rules_keep_reply(struct sl_exchange *x, const struct sl_request *rq);
/*
 * Removes, rewrites and sets fields of a reply by rules. Their values are in core.rule_buf. False:
 * too many.
 */
bool sl_rules_apply_reply(const struct sl_exchange *x, struct sl_reply_parts *out);

#endif
