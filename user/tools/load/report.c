/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/load/load.h"

static const char *const error_names[] = {
#define X(name, text) [SL_LOAD_##name] = text,
	SL_LOAD_ERRORS(X)
#undef X
};

static const struct {
	const char *name;
	double q;
} quantiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}};
enum { QUANTILE_CNT = sizeof(quantiles) / sizeof(quantiles[0]) };

static double per_second(const struct sl_load_result *r)
{
	return r->elapsed_ns ? (double)r->requests * 1e9 / (double)r->elapsed_ns : 0;
}

static void report_json(const struct sl_load_result *r, FILE *out)
{
	fprintf(out,
		"{\"requests\":%llu,\"seconds\":%.3f,\"requests_per_s\":%.1f,\"cpu_s\":%.3f,"
		"\"connects\":%llu,\"bytes_in\":%llu,\"unanswered\":%llu,\"latency_ns\":{",
		(unsigned long long)r->requests, (double)r->elapsed_ns / 1e9, per_second(r),
		r->cpu_s, (unsigned long long)r->connects, (unsigned long long)r->bytes_in,
		(unsigned long long)r->unanswered);
	fprintf(out, "\"min\":%llu,\"mean\":%llu,\"max\":%llu",
		(unsigned long long)(r->latency.count ? r->latency.min : 0),
		(unsigned long long)sl_hist_fine_mean(&r->latency),
		(unsigned long long)r->latency.max);
	for (int i = 0; i < QUANTILE_CNT; i++)
		fprintf(out, ",\"%s\":%llu", quantiles[i].name,
			(unsigned long long)sl_hist_fine_quantile(&r->latency, quantiles[i].q));
	fputs("},\"errors\":{", out);
	for (int i = 0; i < SL_LOAD_ERROR_CNT; i++)
		fprintf(out, "%s\"%s\":%llu", i ? "," : "", error_names[i],
			(unsigned long long)r->errors[i]);
	fprintf(out, "}}\n");
}

void sl_load_report(const struct sl_load_options *o, const struct sl_load_result *r, FILE *out)
{
	uint64_t error_sum = 0;

	if (o->json) {
		report_json(r, out);
		return;
	}
	for (int i = 0; i < SL_LOAD_ERROR_CNT; i++)
		error_sum += r->errors[i];
	fprintf(out, "requests    %llu in %.2f s, %.0f/s\n", (unsigned long long)r->requests,
		(double)r->elapsed_ns / 1e9, per_second(r));
	fprintf(out, "latency     min %.1f  mean %.1f  max %.1f us\n",
		r->latency.count ? (double)r->latency.min / 1e3 : 0,
		(double)sl_hist_fine_mean(&r->latency) / 1e3, (double)r->latency.max / 1e3);
	for (int i = 0; i < QUANTILE_CNT; i++)
		fprintf(out, "  %-8s  %.1f us\n", quantiles[i].name,
			(double)sl_hist_fine_quantile(&r->latency, quantiles[i].q) / 1e3);
	fprintf(out, "client      %.2f s of cpu, %llu connects\n", r->cpu_s,
		(unsigned long long)r->connects);
	fprintf(out, "errors      %llu", (unsigned long long)error_sum);
	for (int i = 0; i < SL_LOAD_ERROR_CNT; i++) {
		if (r->errors[i])
			fprintf(out, "  %s %llu", error_names[i], (unsigned long long)r->errors[i]);
	}
	if (o->arrivals != SL_LOAD_CLOSED)
		fprintf(out, "  unanswered at the end %llu", (unsigned long long)r->unanswered);
	fputc('\n', out);
}
