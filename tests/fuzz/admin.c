/* SPDX-License-Identifier: Apache-2.0 */
// FUZZ_LDFLAGS: -Itests/support -lmicrohttpd
/*
 * The admin endpoint after the acceptor. The first byte selects the socket, statistics beyond the limit
 * of an event (from the start, or after a second) and slow clients of /events. The rest is the peer's
 * input. Overrides stay within their limits. A request over TCP changes nothing. No 200 is empty. Events
 * stay within their limit. A peer that has closed uses no connection, and holds no event.
 */
/* fuzz: max_len=2048 */
/* fuzz: dict=admin.dict */
#include "control/admin.c"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_gateway.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TURNS_MAX = 64, SHED_MAX = 65536 + 1, BATCH_MAX = 1024 };
enum { BY_TCP = 1, LARGE = 2, GROWS = 4, SLOW_CLIENTS = 8 }; /* bits of the first byte */
enum { SLOW_MAX = 3, EVENT_LIMIT = 128 << 10, LARGE_NAME = EVENT_LIMIT };

static struct sl_admin *admin;
static struct sl_window window;
static unsigned drains, reloads;
static struct sl_config *cfg;
static char name[LARGE_NAME + 1]; /* part of the statistics */

static void must(bool ok)
{
	if (!ok)
		abort();
}

/* --- what the pages ask of the loop --- */

void sl_control_drain(struct sl_control *c)
{
	(void)c;
	drains++;
}

int sl_control_reload(struct sl_control *c, json_t **diff, struct sl_err *why)
{
	(void)c;
	if (++reloads % 2)
		return sl_fail(why, -1, "c.conf:1: found x; allowed: y");
	*diff = json_object();
	return 0;
}

json_t *sl_control_reload_json(const struct sl_control *c)
{
	(void)c;
	return json_object();
}

bool sl_control_ready(struct sl_control *c, struct sl_err *why)
{
	(void)c, (void)why;
	return true;
}

static void start(void)
{
	struct sl_err why = SL_ERR(512);

	cfg = sl_config_parse("user = root\n"
			      "pool score { backend a { endpoint = \"shm:///a\" } }\n"
			      "admin { port = 0 socket = none }\n",
			      "c.conf", &why);
	must(cfg != NULL);
	memset(name, 'x', LARGE_NAME);
	cfg->file = name;
	gw_fill(cfg);
	must(sl_window_init(&window, 1) == 0);
	admin = sl_admin_open(NULL, &gw, cfg, &window, &why);
	must(admin != NULL);
	admin_limits.events = EVENT_LIMIT;
}

static void set_large(bool large)
{
	name[8] = large ? 'x' : 0;
}

static unsigned open_conns(void)
{
	unsigned n = 0;

	for (int kind = 0; kind < ADMIN_CLASSES; kind++)
		n += admin->servers[kind].conns.cnt;
	return n;
}

/* Passes the request head as the acceptor does, in a buffer of its exact length. */
static void accept_conn(int fd, bool local, const uint8_t *bytes, size_t len)
{
	const uint8_t *end = memmem(bytes, len, "\r\n\r\n", 4);
	size_t head_len = end ? (size_t)(end - bytes) + 4 : len;
	char *head = malloc(head_len ? head_len : 1);

	must(head != NULL);
	memcpy(head, bytes, head_len);
	hand_to_server(admin, fd, local, head, head_len);
	free(head);
}

static void check_overrides(void)
{
	const struct sl_svc_ctl *ctl = &gw.ctl;
	const uint64_t day_ns = UINT64_C(86400) * 1000000000;

	must(ctl->batch_size <= BATCH_MAX && ctl->shed_level <= SHED_MAX);
	must(ctl->hold_ns <= day_ns + 1 && ctl->bound_ns <= day_ns && ctl->deadline_ns <= day_ns);
}

/* Clients that ask for events and read none: at most one event of each fits into its socket. */
static void add_slow(int *fds)
{
	static const char ask[] = "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

	for (int i = 0; i < SLOW_MAX; i++) {
		int pair[2];

		must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
		must(setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int)) == 0);
		must(write(pair[0], ask, strlen(ask)) == (ssize_t)strlen(ask));
		accept_conn(pair[1], i & 1, (const uint8_t *)ask, strlen(ask));
		sl_admin_tick(admin);
		fds[i] = pair[0];
	}
}

static void check_answer(int fd, bool head)
{
	static char text[1 << 16];
	ssize_t n = read(fd, text, sizeof(text));
	const char *body;

	if (n <= 0)
		return;
	must(n > 12 && memcmp(text, "HTTP/1.", 7) == 0 && text[9] >= '1' && text[9] <= '5');
	body = memmem(text, (size_t)n, "\r\n\r\n", 4);
	must(head || memcmp(text + 9, "200", 3) != 0 || (body && body + 4 < text + n));
}

static bool asks_head(const uint8_t *bytes, size_t len)
{
	while (len && (*bytes == '\r' || *bytes == '\n'))
		bytes++, len--;
	return len >= 5 && memcmp(bytes, "HEAD ", 5) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_svc_ctl ctl;
	unsigned changes, rules = edge_cnt;
	bool local;
	int fds[2], slow[SLOW_MAX] = {-1, -1, -1};

	if (size < 1)
		return 0;
	if (!admin)
		start();
	local = !(data[0] & BY_TCP);
	set_large(data[0] & LARGE);
	memset(&gw.ctl, 0, sizeof(gw.ctl));
	ctl = gw.ctl;
	changes = drains + reloads;
	if (data[0] & SLOW_CLIENTS)
		add_slow(slow);
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	must(write(fds[0], data + 1, size - 1) == (ssize_t)size - 1);
	accept_conn(fds[1], local, data + 1, size - 1);
	for (int i = 0; i < 4; i++) {
		sl_admin_tick(admin);
		if (i == 1 && data[0] & GROWS)
			set_large(true);
	}
	must(admin->event_bytes <= EVENT_LIMIT);
	check_answer(fds[0], asks_head(data + 1, size - 1));
	close(fds[0]);
	for (int i = 0; i < SLOW_MAX; i++) {
		if (slow[i] >= 0)
			close(slow[i]);
	}
	for (int i = 0; i < TURNS_MAX && open_conns(); i++)
		sl_admin_tick(admin);
	must(open_conns() == 0 && admin->event_bytes == 0);
	check_overrides();
	if (!local)
		must(memcmp(&ctl, &gw.ctl, sizeof(ctl)) == 0 && changes == drains + reloads &&
		     rules == edge_cnt);
	return 0;
}
