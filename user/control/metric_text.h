/* SPDX-License-Identifier: Apache-2.0 */
/* The text format of Prometheus: heads of families, labels, histograms. */
#ifndef SL_CONTROL_METRIC_TEXT_H
#define SL_CONTROL_METRIC_TEXT_H

#include "base/strbuf.h"

/* Writes HELP and TYPE. The name is whole. */
void sl_metric_head(struct sl_strbuf *b, const char *name, const char *type, const char *help);
/* Writes NAME="VALUE", escaped. */
void sl_metric_label(struct sl_strbuf *b, const char *name, const char *value);

#endif
