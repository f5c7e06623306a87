/* SPDX-License-Identifier: Apache-2.0 */
// FUZZ_LDFLAGS: -Itests/support -lmicrohttpd
/*
 * The admin endpoint after the acceptor. The first byte selects the Unix socket (even) or TCP, the rest
 * is the peer's input. Overrides stay within their limits. A request over TCP changes nothing. A peer
 * that has closed uses no connection. The gateway's values are constants.
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

static struct sl_admin *admin;
static struct sl_window window;
static unsigned drains, reloads;

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
	struct sl_config *cfg =
		sl_config_parse("user = root\n"
				"pool score { backend a { endpoint = \"shm:///a\" } }\n"
				"admin { port = 0 socket = none }\n",
				"c.conf", &why);

	must(cfg != NULL);
	gw_fill(cfg);
	must(sl_window_init(&window, 1) == 0);
	admin = sl_admin_open(NULL, &gw, cfg, &window, &why);
	must(admin != NULL);
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

static void check_answer(int fd)
{
	static char text[1 << 16];
	ssize_t n = read(fd, text, sizeof(text));

	must(n <= 0 ||
	     (n > 12 && memcmp(text, "HTTP/1.", 7) == 0 && text[9] >= '1' && text[9] <= '5'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sl_svc_ctl ctl;
	unsigned changes, rules = edge_cnt;
	bool local;
	int fds[2];

	if (size < 1)
		return 0;
	if (!admin)
		start();
	local = !(data[0] & 1);
	memset(&gw.ctl, 0, sizeof(gw.ctl));
	ctl = gw.ctl;
	changes = drains + reloads;
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
	must(write(fds[0], data + 1, size - 1) == (ssize_t)size - 1);
	accept_conn(fds[1], local, data + 1, size - 1);
	for (int i = 0; i < 4; i++)
		sl_admin_tick(admin);
	check_answer(fds[0]);
	close(fds[0]);
	for (int i = 0; i < TURNS_MAX && open_conns(); i++)
		sl_admin_tick(admin);
	must(open_conns() == 0);
	check_overrides();
	if (!local)
		must(memcmp(&ctl, &gw.ctl, sizeof(ctl)) == 0 && changes == drains + reloads &&
		     rules == edge_cnt);
	return 0;
}
