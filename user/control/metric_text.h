/* SPDX-License-Identifier: Apache-2.0 */
/* The text formats of metrics: Prometheus 0.0.4 and OpenMetrics 1.0.0. */
#ifndef SL_CONTROL_METRIC_TEXT_H
#define SL_CONTROL_METRIC_TEXT_H

#include "base/strbuf.h"

struct sl_metric_text {
	struct sl_strbuf *b;
	bool openmetrics;
};

/*
 * Writes HELP and TYPE, in OpenMetrics also UNIT. `name` is that of the samples but histograms:
 * NAME_total (counter), NAME_info (info), NAME (gauge, histogram).
 */
void sl_metric_head(const struct sl_metric_text *m, const char *name, const char *type,
		    const char *help);
/* Writes NAME="VALUE", escaped. */
void sl_metric_label(struct sl_strbuf *b, const char *name, const char *value);
/* Writes ,le="BOUND". */
void sl_metric_bound(const struct sl_metric_text *m, double bound);

/* Weights of a client's fields Accept; zeroed at first. */
struct sl_metric_accept {
	unsigned openmetrics, text; /* in thousandths */
	unsigned text_rank;         /* 3: the most specific range */
};
/* Takes the ranges of one field into account. */
void sl_metric_accept_add(struct sl_metric_accept *a, struct sl_span field);
/* Returns true if OpenMetrics is named, and text not preferred. */
bool sl_metric_accept_openmetrics(const struct sl_metric_accept *a);

#endif
