/* SPDX-License-Identifier: Apache-2.0 */
#include "control/control.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "control/admin.h"

enum { POLL_MS = 100, DRAIN_POLL_MS = 5, TICK_NS = 1000000000 };

struct sl_control {
	struct sl_control_options opt;
	struct sl_admin *admin;
	struct sl_window window;
	int signal_fd;
	uint64_t tick_ns;
	uint64_t drain_timeout_ns;
	uint64_t drain_until_ns;
	bool ready_told, draining, stop, fault;
};

static void fill_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	sigaddset(set, SIGPIPE);
}

void sl_control_block_signals(void)
{
	sigset_t set;

	fill_signals(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

void sl_notify_manager(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sun = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (!len || len >= sizeof(sun.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(sun.sun_path, path, len);
	if (path[0] == '@') /* abstract name */
		sun.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&sun,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		sl_log_warn("NOTIFY_SOCKET %s: %s", path, strerror(errno));
	close(fd);
}

struct sl_control *sl_control_open(const struct sl_control_options *opt, char *err, size_t err_len)
{
	struct sl_control *c = calloc(1, sizeof(*c));
	sigset_t set;

	if (!c) {
		snprintf(err, err_len, "control: out of memory");
		return NULL;
	}
	c->opt = *opt;
	c->drain_timeout_ns = opt->config->limits.drain_timeout_ns;
	fill_signals(&set);
	c->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (c->signal_fd < 0 || sl_window_init(&c->window, opt->config) != 0) {
		snprintf(err, err_len, "control: %s", strerror(errno));
		goto fail;
	}
	if (opt->config->admin_port) {
		c->admin = sl_admin_open(c, opt->gateway, opt->config, &c->window, err, err_len);
		if (!c->admin)
			goto fail;
	}
	return c;
fail:
	sl_control_close(c);
	return NULL;
}

void sl_control_close(struct sl_control *c)
{
	sl_admin_close(c->admin);
	sl_window_fini(&c->window);
	if (c->signal_fd >= 0)
		close(c->signal_fd);
	free(c);
}

void sl_control_drain(struct sl_control *c)
{
	if (c->draining)
		return;
	c->draining = true;
	c->drain_until_ns = sl_now_ns() + c->drain_timeout_ns;
	sl_log_info("draining: no new connections, finishing what runs");
	sl_notify_manager("STOPPING=1");
}

bool sl_control_ready(struct sl_control *c, char *why, size_t why_len)
{
	if (c->draining) {
		snprintf(why, why_len, "draining");
		return false;
	}
	if (sl_gateway_fault(c->opt.gateway, why, why_len))
		return false;
	return sl_gateway_ready(c->opt.gateway, why, why_len);
}

static bool is_reloadable(const char *key)
{
	return strcmp(key, "log_level") == 0 || strcmp(key, "limits.drain_timeout") == 0;
}

struct reload {
	struct sl_strbuf applied, restart;
	char text[2][600];
};

static void sort_key(void *arg, const char *key)
{
	struct reload *r = arg;
	struct sl_strbuf *b = is_reloadable(key) ? &r->applied : &r->restart;

	if (b->len)
		sl_strbuf_str(b, ", ");
	sl_strbuf_str(b, key);
}

/* The workers keep the configuration they were built from; what the control thread owns changes. */
static void reload(struct sl_control *c)
{
	struct sl_config *next;
	struct reload r;
	char err[512];

	if (!c->opt.config_file)
		return;
	next = sl_config_load(c->opt.config_file, err, sizeof(err));
	if (!next || sl_config_check_system(next, err, sizeof(err)) != 0) {
		sl_log_err("reload: nothing changed: %s", err);
		sl_config_free(next);
		return;
	}
	sl_strbuf_fixed(&r.applied, r.text[0], sizeof(r.text[0]));
	sl_strbuf_fixed(&r.restart, r.text[1], sizeof(r.text[1]));
	sl_config_diff(c->opt.config, next, sort_key, &r);
	sl_log_at(r.restart.len ? SL_LOG_WARN : SL_LOG_INFO,
		  "reload: in force: %s; needs a restart: %s%s",
		  r.applied.len ? sl_strbuf_cstr(&r.applied) : "nothing new",
		  r.restart.len ? sl_strbuf_cstr(&r.restart) : "nothing",
		  r.restart.err ? " and more" : "");
	sl_log_level_set((enum sl_log_level)next->log_level);
	c->drain_timeout_ns = next->limits.drain_timeout_ns;
	sl_config_free(next);
}

static void take_signals(struct sl_control *c)
{
	struct signalfd_siginfo si;

	while (read(c->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGHUP) {
			reload(c);
		} else if (si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT) {
			if (c->draining)
				c->stop = true;
			sl_control_drain(c);
		}
	}
}

static void watch(struct sl_control *c, uint64_t now_ns)
{
	char why[160];
	bool fault;

	if (!c->ready_told && sl_control_ready(c, why, sizeof(why))) {
		c->ready_told = true;
		if (c->opt.on_ready)
			c->opt.on_ready(c->opt.arg);
		sl_notify_manager("READY=1");
	}
	if (now_ns < c->tick_ns)
		return;
	c->tick_ns = now_ns + TICK_NS;
	sl_window_tick(&c->window, c->opt.gateway, now_ns);
	if (c->admin)
		sl_admin_tick(c->admin);
	fault = sl_gateway_fault(c->opt.gateway, why, sizeof(why));
	if (fault && !c->fault)
		sl_log_err("%s", why);
	else if (!fault && c->fault)
		sl_log_info("all interfaces are back");
	c->fault = fault;
}

static uint32_t count_requests(struct sl_gateway *g)
{
	const struct sl_gateway_info *in = sl_gateway_info(g);
	uint32_t n = 0;

	for (uint32_t w = 0; w < in->worker_cnt; w++)
		n += in->workers[w].exchanges_used;
	return n;
}

static bool drained(struct sl_control *c, uint64_t now_ns)
{
	if (!c->draining)
		return false;
	return sl_gateway_drain(c->opt.gateway) || c->stop || now_ns >= c->drain_until_ns;
}

uint32_t sl_control_run(struct sl_control *c)
{
	struct pollfd fds[2] = {
		{.fd = c->signal_fd, .events = POLLIN},
		{.fd = c->admin ? sl_admin_fd(c->admin) : -1, .events = POLLIN},
	};

	for (;;) {
		if (poll(fds, 2, c->draining ? DRAIN_POLL_MS : POLL_MS) < 0 && errno != EINTR)
			sl_log_err("control: poll: %s", strerror(errno));
		take_signals(c);
		if (c->admin)
			sl_admin_run(c->admin);
		if (drained(c, sl_now_ns()))
			return count_requests(c->opt.gateway);
		watch(c, sl_now_ns());
	}
}
