/* SPDX-License-Identifier: Apache-2.0 */
/* The score backend against a plain loop; whole numbers, so that sums are exact in any order. */
#include <libgen.h>
#include <math.h>
#include "base/rand.h"
/* A program of its own, without the device of the tests. */
#define HARNESS_ENDPOINTS "shm,tcp"
#include "rpc_harness.h"
#include "suite.h"

enum { DIM = 24, ROWS = 500, TOP = 7, QUERIES = 64 };

static float matrix[ROWS][DIM];
static char matrix_file[64];

static void setup(void)
{
	struct sl_prng rng;
	FILE *f;

	sl_prng_seed(&rng, 3);
	for (unsigned r = 0; r < ROWS; r++) {
		for (unsigned d = 0; d < DIM; d++)
			matrix[r][d] = (float)((int)sl_prng_below(&rng, 9) - 4);
	}
	snprintf(matrix_file, sizeof(matrix_file), "/tmp/sl-score-test-%d.bin", (int)getpid());
	f = fopen(matrix_file, "wb");
	ck_assert_uint_eq(fwrite(matrix, sizeof(matrix), 1, f), 1);
	fclose(f);
}

static void teardown(void)
{
	unlink(matrix_file);
}

/* The program lies in the build folder, three levels above this one. */
static struct backend_proc start_score(const char *endpoint)
{
	struct backend_proc p = {.pid = fork()};
	char self[512], path[600];
	ssize_t n;

	if (p.pid)
		return p;
	alarm(60);
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[n > 0 ? n : 0] = '\0';
	snprintf(path, sizeof(path), "%s/score", dirname(dirname(dirname(dirname(self)))));
	execl(path, "score", "--listen", endpoint, "--matrix", matrix_file, "--dim", "24", "--top",
	      "7", "--max-batch", "32", harness_key() ? "--key-file" : NULL, harness_key(), NULL);
	fprintf(stderr, "%s: %s (built by `make all`)\n", path, strerror(errno));
	_exit(3);
}

static size_t expected_text(const float *q, char *to)
{
	bool taken[ROWS] = {false};
	unsigned ids[TOP];
	float scores[TOP], sum;
	char *at = to;

	for (unsigned k = 0; k < TOP; k++) {
		scores[k] = -INFINITY;
		for (unsigned r = 0; r < ROWS; r++) {
			sum = 0;
			for (unsigned d = 0; d < DIM; d++)
				sum += q[d] * matrix[r][d];
			if (!taken[r] && sum > scores[k]) {
				scores[k] = sum;
				ids[k] = r;
			}
		}
		taken[ids[k]] = true;
	}
	at += sprintf(at, "{\"ids\":[");
	for (unsigned k = 0; k < TOP; k++)
		at += sprintf(at, k ? ",%u" : "%u", ids[k]);
	at += sprintf(at, "],\"scores\":[");
	for (unsigned k = 0; k < TOP; k++)
		at += sprintf(at, k ? ",%.9g" : "%.9g", (double)scores[k]);
	at += sprintf(at, "]}");
	return (size_t)(at - to);
}

FIXTURE(setup, teardown)

TEST_EACH(scores_are_those_of_a_plain_loop, endpoint_cnt())
{
	static float queries[QUERIES][DIM];
	static struct call calls[QUERIES];
	struct sl_rpc_item items[QUERIES];
	struct sl_span spans[QUERIES];
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_score(ep);
	struct gateway g;
	struct sl_prng rng;
	uint64_t batch;

	sl_prng_seed(&rng, 4);
	gw_open(&g, ep);
	for (unsigned i = 0; i < QUERIES; i++) {
		for (unsigned d = 0; d < DIM; d++)
			queries[i][d] = (float)((int)sl_prng_below(&rng, 9) - 4);
		call_init(&calls[i], 4096);
		spans[i] = sl_span_of(queries[i], sizeof(queries[i]));
		items[i] = (struct sl_rpc_item){.cookie = &calls[i],
						.spans = &spans[i],
						.span_cnt = 1,
						.class = SL_CLASS_NORMAL,
						.len = sizeof(queries[i])};
	}
	ck_assert_int_eq(sl_rpc_send(g.ch, items, QUERIES, sl_now_ns(), &batch), 0);
	gw_until(&g, g.batches_done == 1);
	for (unsigned i = 0; i < QUERIES; i++) {
		char text[2048];
		size_t len = expected_text(queries[i], text);

		ck_assert_uint_eq(calls[i].len, len);
		ck_assert_mem_eq(calls[i].body, text, len);
		call_fini(&calls[i]);
	}
	gw_close(&g);
	backend_term(p);
}

static void check_refused(struct gateway *g, const void *body, size_t len, const char *error)
{
	struct call c;
	uint8_t status[] = {SL_META_STATUS, 0, 2, 0, 0x90, 1}; /* 400 */

	call_init(&c, 512);
	ck_assert_int_eq(
		gw_send(g, &c, sl_span_of(NULL, 0), sl_span_of(body, len), 0, SL_CLASS_NORMAL), 0);
	gw_until(g, c.done);
	ck_assert_uint_eq(c.status, SL_RPC_OK);
	ck_assert_ptr_nonnull(memmem(c.meta, c.meta_len, status, sizeof(status)));
	ck_assert_ptr_nonnull(memmem(c.meta, c.meta_len, "application/json", 16));
	ck_assert_ptr_nonnull(memmem(c.body, c.len, error, strlen(error)));
	call_fini(&c);
}

TEST_EACH(malformed_vectors_are_refused_with_the_reason, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p = start_score(ep);
	struct gateway g;
	float v[DIM + 1] = {0};

	gw_open(&g, ep);
	check_refused(&g, v, 0, "expected 96 bytes (24 floats), got 0");
	check_refused(&g, v, sizeof(v), "got 100");
	check_refused(&g, v, 95, "got 95");
	v[3] = NAN;
	check_refused(&g, v, DIM * sizeof(float), "element 3 is not finite");
	v[3] = INFINITY;
	check_refused(&g, v, DIM * sizeof(float), "element 3 is not finite");
	for (unsigned d = 0; d < DIM; d++)
		v[d] = 3e38f;
	check_refused(&g, v, DIM * sizeof(float), "a score is not finite");
	gw_until(&g, g.batches_done == 6);
	gw_close(&g);
	backend_term(p);
}
