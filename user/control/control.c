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
#include "control/control_impl.h"

enum { POLL_MS = 100, STEP_POLL_MS = 5, TICK_NS = 1000000000 };

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
	c->service_max = sl_gateway_info(opt->gateway)->service_max;
	fill_signals(&set);
	c->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (c->signal_fd < 0 || sl_window_init(&c->window, c->service_max) != 0) {
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
	sl_config_free(c->reload_wait);
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
	c->drain_until_ns =
		sl_now_ns() + sl_gateway_info(c->opt.gateway)->cfg->limits.drain_timeout_ns;
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

static void reload_on_signal(struct sl_control *c)
{
	char err[600];

	if (sl_control_reload(c, NULL, err, sizeof(err)))
		sl_log_err("reload: nothing changed: %s", err);
}

static void take_signals(struct sl_control *c)
{
	struct signalfd_siginfo si;

	while (read(c->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGHUP) {
			reload_on_signal(c);
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
		bool busy = c->draining || c->reload_wait || c->reloading;

		if (poll(fds, 2, busy ? STEP_POLL_MS : POLL_MS) < 0 && errno != EINTR)
			sl_log_err("control: poll: %s", strerror(errno));
		take_signals(c);
		if (c->admin)
			sl_admin_run(c->admin);
		sl_control_step(c);
		if (drained(c, sl_now_ns()))
			return count_requests(c->opt.gateway);
		watch(c, sl_now_ns());
	}
}
