/* SPDX-License-Identifier: Apache-2.0 */
/* Returns the rows of a matrix with the largest dot products. A batch is one matrix product. */
#include <cblas.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include "sdk/programs/program.h"
#include "base/rand.h"

extern void openblas_set_num_threads(int num_threads);

enum { TOP_MAX = 1000, DIM_MAX = 65536, SCORES_MAX = 32 << 20, ENTRY_TEXT = 32 };

struct scored {
	float score;
	uint32_t row;
};

struct top {
	struct scored best[TOP_MAX];
	unsigned cnt;
	bool finite;
	struct sl_request_view *rq;
};

struct scorer {
	const char *listen, *key_file, *matrix_file;
	unsigned long dim, top, threads, max_batch, make_rows, seed;
	unsigned long pad, slow; /* for benches: see help */
	size_t rows, tile;
	float *matrix;    /* rows * dim */
	float *queries;   /* max_batch * dim */
	float *scores;    /* max_batch * tile */
	struct top *tops; /* max_batch */
	char *text;
};

static bool report_error(const char *file, const char *what)
{
	fprintf(stderr, "score: %s: %s\n", file, what);
	return false;
}

static bool make_matrix(const struct scorer *s)
{
	FILE *f = fopen(s->matrix_file, "wb");
	struct sl_prng rng;
	bool ok = f != NULL;

	if (!f)
		return report_error(s->matrix_file, strerror(errno));
	sl_prng_seed(&rng, s->seed);
	for (size_t i = 0; ok && i < s->make_rows * s->dim; i++) {
		float v = (float)(2 * sl_prng_unit(&rng) - 1);

		ok = fwrite(&v, sizeof(v), 1, f) == 1;
	}
	ok = fclose(f) == 0 && ok;
	return ok ? true : report_error(s->matrix_file, strerror(errno));
}

static bool load_matrix(struct scorer *s)
{
	size_t row = s->dim * sizeof(float), len;
	char text[96];
	FILE *f = fopen(s->matrix_file, "rb");
	struct stat st;
	bool ok;

	if (!f || fstat(fileno(f), &st) < 0)
		return report_error(s->matrix_file, strerror(errno));
	len = (size_t)st.st_size;
	s->rows = len / row;
	ok = s->rows && len % row == 0 && s->rows <= INT32_MAX;
	if (!ok) {
		fclose(f);
		return report_error(s->matrix_file,
				    "expected a whole number of rows of --dim floats");
	}
	s->matrix = malloc(len);
	ok = s->matrix && fread(s->matrix, row, s->rows, f) == s->rows;
	fclose(f);
	if (!ok)
		return report_error(s->matrix_file, "cannot read into memory");
	for (size_t i = 0; i < s->rows * s->dim; i++) {
		if (!isfinite(s->matrix[i])) {
			snprintf(text, sizeof(text), "row %zu, column %zu is not finite",
				 i / s->dim, i % s->dim);
			return report_error(s->matrix_file, text);
		}
	}
	return true;
}

static void refuse_request(struct sl_request_view *rq, const char *error)
{
	char text[160];
	int len = snprintf(text, sizeof(text), "{\"error\":\"%s\"}", error);

	sl_reply(rq, &(struct sl_reply_args){.status = 400,
					     .grpc_status = 3, /* INVALID_ARGUMENT */
					     .grpc_message = error,
					     .content_type = "application/json",
					     .body = text,
					     .body_len = (size_t)len});
}

static bool take_query(struct scorer *s, struct sl_request_view *rq, size_t n)
{
	float *to = s->queries + n * s->dim;
	char text[96];

	if (rq->body_len != s->dim * sizeof(float)) {
		snprintf(text, sizeof(text), "expected %zu bytes (%lu floats), got %zu",
			 s->dim * sizeof(float), s->dim, rq->body_len);
		refuse_request(rq, text);
		return false;
	}
	memcpy(to, rq->body, rq->body_len);
	for (size_t i = 0; i < s->dim; i++) {
		if (!isfinite(to[i])) {
			snprintf(text, sizeof(text), "element %zu is not finite", i);
			refuse_request(rq, text);
			return false;
		}
	}
	s->tops[n].cnt = 0;
	s->tops[n].finite = true;
	s->tops[n].rq = rq;
	return true;
}

static void merge_top(struct top *t, unsigned most, const float *scores, size_t cnt,
		      size_t first_row)
{
	for (size_t i = 0; i < cnt; i++) {
		float v = scores[i];
		unsigned at;

		if (!isfinite(v)) {
			t->finite = false;
			continue;
		}
		if (t->cnt == most && v <= t->best[most - 1].score)
			continue;
		at = t->cnt < most ? t->cnt++ : most - 1;
		for (; at && t->best[at - 1].score < v; at--)
			t->best[at] = t->best[at - 1];
		t->best[at] = (struct scored){v, (uint32_t)(first_row + i)};
	}
}

static volatile sig_atomic_t slower;

static void become_slower(int sig)
{
	(void)sig;
	slower = !slower;
}

static void multiply_rows(struct scorer *s, size_t n, size_t row, size_t cnt)
{
	size_t whole = s->pad ? (n + s->pad - 1) / s->pad * s->pad : n;

	if (whole > s->max_batch)
		whole = s->max_batch;
	cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)whole, (int)cnt, (int)s->dim, 1,
		    s->queries, (int)s->dim, s->matrix + row * s->dim, (int)s->dim, 0, s->scores,
		    (int)cnt);
}

static void reply_with(struct scorer *s, struct top *t)
{
	char *at = s->text;

	if (!t->finite) {
		refuse_request(t->rq, "a score is not finite: the vector is too large");
		return;
	}
	at += sprintf(at, "{\"ids\":[");
	for (unsigned i = 0; i < t->cnt; i++)
		at += sprintf(at, i ? ",%u" : "%u", t->best[i].row);
	at += sprintf(at, "],\"scores\":[");
	for (unsigned i = 0; i < t->cnt; i++)
		at += sprintf(at, i ? ",%.9g" : "%.9g", (double)t->best[i].score);
	at += sprintf(at, "]}");
	sl_reply(t->rq, &(struct sl_reply_args){.content_type = "application/json",
						.body = s->text,
						.body_len = (size_t)(at - s->text)});
}

static void handle_batch(void *arg, struct sl_batch *batch)
{
	struct scorer *s = arg;
	size_t again = slower ? s->rows * s->slow / 100 : 0, n = 0, cnt;

	for (unsigned i = 0; i < batch->count; i++)
		n += take_query(s, batch->requests[i], n);
	if (!n)
		return;
	for (size_t row = 0; row < again; row += s->tile)
		multiply_rows(s, n, row, again - row < s->tile ? again - row : s->tile);
	for (size_t row = 0; row < s->rows; row += s->tile) {
		cnt = s->rows - row < s->tile ? s->rows - row : s->tile;
		multiply_rows(s, n, row, cnt);
		for (size_t q = 0; q < n; q++)
			merge_top(&s->tops[q], (unsigned)s->top, s->scores + q * cnt, cnt, row);
	}
	for (size_t i = 0; i < n; i++)
		reply_with(s, &s->tops[i]);
}

static const char help[] =
	"Usage: score --listen ENDPOINT --matrix FILE --dim D [options]\n"
	"       score --make-matrix ROWS --matrix FILE --dim D [--seed N]\n"
	"Finds the rows of a matrix with the largest dot product with each request's vector\n"
	"(D little-endian floats) and replies {\"ids\":[..],\"scores\":[..]}, best first.\n"
	"\n"
	"  -l, --listen ENDPOINT   shm:///path, rdma://address:port or\n"
	"                          tcp://host:port\n"
	"  -K, --key-file FILE     shared key that rdma:// and tcp:// peers must prove\n"
	"  -m, --matrix FILE       rows of D little-endian floats\n"
	"  -d, --dim D             floats per row\n"
	"  -k, --top K             rows in a reply (default 10, at most 1000)\n"
	"  -b, --max-batch N       largest batch (default 256)\n"
	"  -t, --threads N         threads of OpenBLAS (default 1)\n"
	"  -P, --pad N             compute multiples of N requests, as accelerators do\n"
	"  -S, --slow PERCENT      SIGUSR1 toggles this much extra time (at most 100)\n"
	"  -M, --make-matrix ROWS  write a random matrix and exit\n"
	"  -s, --seed N            seed of --make-matrix (default 1)\n"
	"  -h, --help\n";

static const struct option long_options[] = {
	{"listen", required_argument, NULL, 'l'},
	{"key-file", required_argument, NULL, 'K'},
	{"matrix", required_argument, NULL, 'm'},
	{"dim", required_argument, NULL, 'd'},
	{"top", required_argument, NULL, 'k'},
	{"max-batch", required_argument, NULL, 'b'},
	{"threads", required_argument, NULL, 't'},
	{"pad", required_argument, NULL, 'P'},
	{"slow", required_argument, NULL, 'S'},
	{"make-matrix", required_argument, NULL, 'M'},
	{"seed", required_argument, NULL, 's'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static bool parse_number(unsigned long most, unsigned long *out)
{
	return program_number("score", optarg, most, out);
}

static int parse_args(int argc, char **argv, struct scorer *s)
{
	int c;
	bool ok = true;

	while (ok &&
	       (c = getopt_long(argc, argv, "l:K:m:d:k:b:t:P:S:M:s:h", long_options, NULL)) != -1) {
		switch (c) {
		case 'l': s->listen = optarg; break;
		case 'K': s->key_file = optarg; break;
		case 'm': s->matrix_file = optarg; break;
		case 'd': ok = parse_number(DIM_MAX, &s->dim); break;
		case 'k': ok = parse_number(TOP_MAX, &s->top); break;
		case 'b': ok = parse_number(SL_RPC_MAX_BATCH, &s->max_batch); break;
		case 't': ok = parse_number(1024, &s->threads); break;
		case 'P': ok = parse_number(SL_RPC_MAX_BATCH, &s->pad); break;
		case 'S': ok = parse_number(100, &s->slow); break;
		case 'M': ok = parse_number(UINT32_MAX, &s->make_rows); break;
		case 's': ok = parse_number(UINT32_MAX, &s->seed); break;
		case 'h': fputs(help, stdout); return 1;
		default: ok = false;
		}
	}
	if (ok && s->matrix_file && s->dim && s->top && s->max_batch && s->threads &&
	    (s->listen || s->make_rows) && optind == argc)
		return 0;
	fputs("score: expected --listen ENDPOINT (or --make-matrix ROWS) with --matrix FILE and "
	      "--dim D; see --help\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct scorer s = {.top = 10, .threads = 1, .max_batch = 256, .seed = 1};
	struct sl_backend_options opt = {.on_batch = handle_batch, .arg = &s};
	size_t fit;
	int rc = parse_args(argc, argv, &s);

	if (rc)
		return rc == 1 ? 0 : rc;
	if (s.make_rows)
		return make_matrix(&s) ? 0 : 1;
	if (!load_matrix(&s))
		return 1;
	fit = SCORES_MAX / s.max_batch;
	s.tile = s.rows < fit ? s.rows : fit;
	if (s.top > s.rows)
		s.top = s.rows;
	s.queries = calloc(s.max_batch * s.dim, sizeof(float));
	s.scores = malloc(s.max_batch * s.tile * sizeof(float));
	s.tops = malloc(s.max_batch * sizeof(*s.tops));
	s.text = malloc(64 + 2 * s.top * ENTRY_TEXT);
	opt.listen = s.listen;
	opt.key_file = s.key_file;
	opt.max_batch = (unsigned)s.max_batch;
	if (s.slow)
		signal(SIGUSR1, become_slower);
	openblas_set_num_threads((int)s.threads);
	if (s.queries && s.scores && s.tops && s.text)
		rc = program_run("score", &opt);
	else
		rc = !report_error("memory", "not enough for this --max-batch");
	free(s.matrix);
	free(s.queries);
	free(s.scores);
	free(s.tops);
	free(s.text);
	return rc;
}
