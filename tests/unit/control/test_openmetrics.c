/* SPDX-License-Identifier: Apache-2.0 */
/* OpenMetrics: which clients get it, and how it differs from the text format of Prometheus. */
#include "control_bed.h"
#include "control/metric_text.h"
#include "front/exemplar.h"
#include "suite.h"

#define NAMED "application/openmetrics-text"
#define PROMETHEUS                                                                                 \
	NAMED ";version=1.0.0," NAMED                                                              \
	      ";version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
#define PROMETHEUS3                                                                                \
	NAMED ";version=1.0.0;escaping=allow-utf-8;q=0.5," NAMED                                   \
	      ";version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"          \
	      "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"

static const struct {
	const char *fields[3];
	bool openmetrics;
} cases[] = {
	{{PROMETHEUS}, true},
	{{PROMETHEUS3}, true},
	{{NAMED "; version=1.0.0; charset=utf-8"}, true},
	{{NAMED}, true},
	{{"Application/OpenMetrics-Text ; Version=\"1.0.0\""}, true},
	{{NAMED, "text/plain"}, true},
	{{"text/plain;version=0.0.4;q=0.5", NAMED ";version=1.0.0"}, true},
	{{"*/*;q=0.9, text/plain;q=0.1, " NAMED ";q=0.2"}, true},
	{{NAMED ";q=0.2, text/plain;version=2.0.0;q=0.9"}, true},
	{{NAMED ";q=0.001"}, true},
	{{NAMED ";a=\",;\\\"q=0\";q=0.5, */*;q=0.4"}, true},
	{{NULL}, false},
	{{""}, false},
	{{",;=,\"", "q=1", ";;q=;"}, false},
	{{"*/*"}, false},
	{{"application/*"}, false},
	{{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, false},
	{{"text/plain;version=0.0.4;q=1, */*;q=0.1"}, false},
	{{NAMED ";version=0.0.1"}, false},
	{{NAMED ";version=1.0.0;q=0"}, false},
	{{NAMED ";version=1.0.0;q=0.000, */*"}, false},
	{{NAMED ";q=1.5"}, false},
	{{NAMED ";q=0.1234"}, false},
	{{NAMED ";q=0.5, text/plain"}, false},
	{{NAMED ";q=0.5, text/*;q=0.6"}, false},
	{{NAMED ";q=0.5", "*/*;q=0.51"}, false},
	{{"application/openmetrics-text-x"}, false},
};

TEST_EACH(openmetrics_is_for_clients_that_name_it, SL_ARRAY_LEN(cases))
{
	struct sl_metric_accept a = {0};

	for (unsigned i = 0; i < 3 && cases[_i].fields[i]; i++)
		sl_metric_accept_add(&a, sl_span_cstr(cases[_i].fields[i]));
	ck_assert_msg(sl_metric_accept_openmetrics(&a) == cases[_i].openmetrics, "%s",
		      cases[_i].fields[0]);
}

FIXTURE(set_up, tear_down)

static char *render(struct sl_strbuf *b, bool openmetrics)
{
	sl_strbuf_grow(b, 1 << 20);
	sl_metrics_render(&gw, openmetrics, b);
	ck_assert_int_eq(b->err, 0);
	return b->ptr;
}

TEST(each_format_has_its_type)
{
	struct runner r = {0};

	start(&r);
	expect("GET /metrics", HOST "Accept: " PROMETHEUS "\r\n", "200",
	       "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n");
	expect("GET /metrics", HOST "Accept: " PROMETHEUS "\r\n", "200", "\n# EOF\n");
	expect("GET /metrics",
	       HOST "Accept: text/plain;q=0.5\r\nAccept: " NAMED ";version=1.0.0\r\n", "200",
	       "\n# EOF\n");
	expect("GET /metrics", HOST "Accept: */*\r\n", "200",
	       "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
	expect("GET /metrics", HOST, "200", "text/plain; version=0.0.4");
	kill(getpid(), SIGTERM);
	finish(&r);
}

TEST(heads_follow_the_format)
{
	static const char *const lines[] = {
		"# TYPE sluice_requests counter\n",
		"\nsluice_requests_total{worker=\"0\"} 70\n",
		"# TYPE sluice_port_rx_bytes counter\n# UNIT sluice_port_rx_bytes bytes\n",
		"# TYPE sluice_tls_waited_seconds counter\n# UNIT sluice_tls_waited_seconds seconds\n",
		"# TYPE sluice_uptime_seconds gauge\n# UNIT sluice_uptime_seconds seconds\n",
		"# TYPE sluice_port info\n",
		"\nsluice_port_info{worker=\"1\",interface=\"sl0\",queue=\"1\",mode=\"generic\"} 1\n",
		"HTTP status; route \\\"\\\": none matched\n# TYPE sluice_route_responses counter\n",
		"# UNIT http_server_request_duration_seconds seconds\n",
		"sluice_backend_seconds_bucket{pool=\"score\",backend=\"a\",le=\"1e-05\"} 0\n",
		"sluice_backend_seconds_bucket{pool=\"score\",backend=\"a\",le=\"0.0025\"} 0\n",
		"sluice_backend_seconds_bucket{pool=\"score\",backend=\"a\",le=\"1.0\"} 0\n",
		"sluice_backend_seconds_bucket{pool=\"score\",backend=\"a\",le=\"10.0\"} 0\n",
		"sluice_backend_seconds_bucket{pool=\"score\",backend=\"a\",le=\"+Inf\"} 0\n",
	};
	struct sl_strbuf b;

	render(&b, true);
	for (size_t i = 0; i < SL_ARRAY_LEN(lines); i++)
		ck_assert_msg(strstr(b.ptr, lines[i]) != NULL, "%s", lines[i]);
	ck_assert_str_eq(b.ptr + b.len - strlen("\n# EOF\n"), "\n# EOF\n");
	sl_strbuf_fini(&b);
	render(&b, false);
	ck_assert_ptr_null(strstr(b.ptr, "# EOF"));
	ck_assert_ptr_null(strstr(b.ptr, "# UNIT"));
	ck_assert_ptr_nonnull(strstr(b.ptr, "# TYPE sluice_port_info gauge\n"));
	ck_assert_ptr_nonnull(strstr(b.ptr, "# TYPE sluice_requests_total counter\n"));
	ck_assert_ptr_nonnull(strstr(b.ptr, "route \"\": none matched\n"));
	ck_assert_ptr_nonnull(strstr(b.ptr, "backend=\"a\",le=\"1\"} 0\n"));
	sl_strbuf_fini(&b);
}

static bool has_suffix(const char *sample, const char *type)
{
	const char *end = sample + strcspn(sample, "{ ");
	size_t len = (size_t)(end - sample);

#define IS(text) (len == strlen(text) && strncmp(sample, text, len) == 0)
	if (strcmp(type, "counter") == 0)
		return IS("_total");
	if (strcmp(type, "info") == 0)
		return IS("_info");
	if (strcmp(type, "histogram") == 0)
		return IS("_bucket") || IS("_sum") || IS("_count");
	return strcmp(type, "gauge") == 0 && len == 0;
#undef IS
}

/* Returns the number of families. */
static unsigned check_families(char *text)
{
	static char names[512][100];
	char *save, type[20] = "", name[100] = "", unit[20];
	unsigned cnt = 0;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		if (sscanf(line, "# TYPE %99s %19s", name, type) == 2) {
			for (unsigned i = 0; i < cnt; i++)
				ck_assert_str_ne(name, names[i]);
			ck_assert_uint_lt(cnt, SL_ARRAY_LEN(names));
			strcpy(names[cnt++], name);
		} else if (sscanf(line, "# UNIT %99s %19s", name, unit) == 2) {
			ck_assert_str_eq(name, names[cnt - 1]);
			ck_assert_str_eq(name + strlen(name) - strlen(unit), unit);
		} else if (line[0] != '#') {
			ck_assert_msg(strncmp(line, name, strlen(name)) == 0 &&
					      has_suffix(line + strlen(name), type),
				      "%s in %s %s", line, type, name);
		}
	}
	return cnt;
}

TEST(each_sample_has_the_suffix_of_its_type_and_no_family_comes_twice)
{
	struct sl_strbuf b;

	render(&b, true);
	ck_assert_uint_gt(check_families(b.ptr), 150);
	sl_strbuf_fini(&b);
}

static struct sl_code_at at_status(unsigned status, uint8_t proto)
{
	return sl_code_find(&(struct sl_code_end){.status = status, .begun = true, .proto = proto});
}

static void add_request(unsigned worker, struct sl_code_at at, uint64_t ns, uint8_t id)
{
	const uint8_t trace_id[16] = {0xab, [15] = id};

	ck_assert(sl_exemplars_make(route_codes[worker][1]));
	sl_route_codes_add(route_codes[worker][1], at, ns);
	sl_exemplar_put(route_codes[worker][1], at, ns, trace_id);
}

TEST(buckets_of_durations_have_exemplars)
{
	static const char *const forms[] = {
		"\nhttp_server_request_duration_seconds_bucket\\{http_route=\"\","
		"http_response_status_code=\"200\",le=\"0.001\"\\} 2 # "
		"\\{trace_id=\"ab000000000000000000000000000002\"\\} 0.000700001 "
		"[0-9]{10}\\.[0-9]{3}\n",
		"le=\"0.0025\"\\} 2\n",
		"http_response_status_code=\"500\",le=\"\\+Inf\"\\} 1 # "
		"\\{trace_id=\"ab000000000000000000000000000003\"\\} 60.000000000 [0-9.]+\n",
		"rpc_server_duration_seconds_bucket\\{http_route=\"\","
		"rpc_grpc_status_code=\"0\",rpc_system=\"grpc\",le=\"1e-05\"\\} 1 # "
		"\\{trace_id=\"ab000000000000000000000000000004\"\\} 0.000000005 [0-9.]+\n",
	};
	struct sl_strbuf b;
	regex_t re;

	add_request(0, at_status(200, SL_PROTO_HTTP1), 600000, 1);
	add_request(1, at_status(200, SL_PROTO_HTTP1), 700001, 2);
	add_request(1, at_status(500, SL_PROTO_HTTP1), UINT64_C(60000000000), 3);
	add_request(0, at_status(200, SL_PROTO_GRPC), 5, 4);
	render(&b, true);
	for (size_t i = 0; i < SL_ARRAY_LEN(forms); i++) {
		ck_assert_int_eq(regcomp(&re, forms[i], REG_EXTENDED | REG_NOSUB), 0);
		ck_assert_msg(regexec(&re, b.ptr, 0, NULL, 0) == 0, "%s in %s", forms[i],
			      strstr(b.ptr, "# HELP http_server"));
		regfree(&re);
	}
	sl_strbuf_fini(&b);
	render(&b, false);
	ck_assert_ptr_null(strstr(b.ptr, "trace_id"));
	sl_strbuf_fini(&b);
}
