/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stale_socket.h"

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* TRIES also ends the wait when the clock is set back. */
enum { STEP_US = 50000, TRIES = 25 };

static bool is_refused(const struct sockaddr_un *at, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool refused;

	if (fd < 0)
		return false;
	refused =
		connect(fd, (const struct sockaddr *)at, sizeof(*at)) != 0 && errno == ECONNREFUSED;
	close(fd);
	return refused;
}

static bool is_young(const struct stat *st)
{
	struct timespec now;
	int64_t age_ns;

	clock_gettime(CLOCK_REALTIME, &now);
	age_ns = (int64_t)(now.tv_sec - st->st_ctim.tv_sec) * (int64_t)SL_NS_PER_SEC + now.tv_nsec -
		 st->st_ctim.tv_nsec;
	return age_ns < (int64_t)SL_NS_PER_SEC;
}

bool sl_socket_is_stale(const struct sockaddr_un *at, int type)
{
	struct stat st;

	for (unsigned i = 0; i < TRIES; i++) {
		if (stat(at->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode) || !is_refused(at, type))
			return false;
		if (!is_young(&st))
			break;
		usleep(STEP_US);
	}
	return true;
}
