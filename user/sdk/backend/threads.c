/* SPDX-License-Identifier: Apache-2.0 */
/*
 * I/O thread and handler's thread of a backend that is not inline.
 *
 * `turn` passes a batch (release, acquire).
 */
#include <poll.h>
#include <sched.h>
#include <unistd.h>
#include "sdk/backend/internal.h"
#include "base/clock.h"
#include "base/cpu.h"

enum { SERVE_US = 1000000 };

static void *io_main(void *arg)
{
	struct sl_backend *b = arg;

	sl_be_polling = b;
	while (!atomic_load(&b->stop))
		sl_be_serve(b, SERVE_US);
	sl_be_drain(b);
	sl_be_stats_publish(b);
	atomic_store(&b->io_state, IO_ENDED);
	sl_be_wake_handler(b);
	return NULL;
}

static int start_io_thread(struct sl_backend *b)
{
	int rc;

	if (atomic_load_explicit(&b->io_state, memory_order_relaxed) != IO_NONE)
		return 0;
	atomic_store(&b->io_state, IO_RUNS);
	rc = sl_thread_start(&b->io_thread, io_main, b);
	if (rc)
		atomic_store(&b->io_state, IO_NONE);
	return rc;
}

bool sl_be_is_io_thread(const struct sl_backend *b)
{
	return atomic_load(&b->io_state) != IO_NONE && pthread_equal(pthread_self(), b->io_thread);
}

bool sl_be_io_ended(const struct sl_backend *b)
{
	return atomic_load(&b->io_state) == IO_ENDED;
}

void sl_be_io_join(struct sl_backend *b)
{
	if (atomic_load(&b->io_state) == IO_NONE)
		return;
	atomic_store(&b->quit, true);
	sl_backend_stop(b);
	pthread_join(b->io_thread, NULL);
	atomic_store(&b->io_state, IO_NONE);
}

static bool has_batch(const struct sl_backend *b)
{
	return atomic_load_explicit(&b->turn, memory_order_acquire) == TURN_HANDLER;
}

static bool is_over(const struct sl_backend *b)
{
	return atomic_load_explicit(&b->io_state, memory_order_relaxed) == IO_ENDED;
}

static bool arm_io(struct sl_backend *b)
{
	atomic_store_explicit(&b->waiting, true, memory_order_relaxed);
	/* Pairs with the fence of sl_be_wake_handler(). */
	atomic_thread_fence(memory_order_seq_cst);
	return !has_batch(b) && !is_over(b);
}

static void disarm_io(struct sl_backend *b)
{
	uint64_t bells;

	atomic_store_explicit(&b->waiting, false, memory_order_relaxed);
	if (read(b->work_fd, &bells, sizeof(bells)) < 0)
		return;
}

static bool wait_for_batch(struct sl_backend *b, unsigned wait_us)
{
	uint64_t begun_ns = sl_now_ns(), until_ns = begun_ns + wait_us * SL_NS_PER_US, now_ns;

	for (;;) {
		if (has_batch(b))
			return true;
		now_ns = sl_now_ns();
		if (now_ns >= until_ns || is_over(b))
			return false;
		if (b->opt.busy_poll || now_ns - begun_ns < SL_BE_SPIN_NS) {
			sched_yield();
		} else {
			struct pollfd p = {.fd = b->work_fd, .events = POLLIN};
			struct timespec left = {
				.tv_sec = (time_t)((until_ns - now_ns) / SL_NS_PER_SEC),
				.tv_nsec = (long)((until_ns - now_ns) % SL_NS_PER_SEC)};

			if (arm_io(b))
				(void)ppoll(&p, 1, &left, NULL);
			disarm_io(b);
		}
	}
}

int sl_be_handle_wait(struct sl_backend *b, unsigned wait_us)
{
	int rc = start_io_thread(b);

	if (rc)
		return rc;
	if (!wait_for_batch(b, wait_us))
		return 0;
	b->opt.on_batch(b->opt.arg, &b->batch);
	atomic_store_explicit(&b->turn, TURN_IO, memory_order_release);
	sl_be_wake(b);
	return 1;
}

int sl_backend_fd(const struct sl_backend *b)
{
	return b->opt.inline_handler ? b->epoll_fd : b->work_fd;
}

int sl_backend_arm(struct sl_backend *b)
{
	int rc;

	if (b->opt.inline_handler)
		return sl_be_arm(b);
	rc = start_io_thread(b);
	return rc ? rc : arm_io(b);
}

void sl_backend_disarm(struct sl_backend *b)
{
	if (b->opt.inline_handler) {
		sl_be_take_events(b, 0);
		sl_be_disarm(b);
	} else {
		disarm_io(b);
	}
}
