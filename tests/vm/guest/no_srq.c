/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LD_PRELOAD: devices that cannot share receive queues. NO_SRQ=unknown: they say that they have some, and
 * refuse to make one; else they say that they have none.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

static int refuses(void)
{
	const char *how = getenv("NO_SRQ");

	return how && strcmp(how, "unknown") == 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	int (*query)(struct ibv_context *, struct ibv_device_attr *);
	int rc;

	*(void **)&query = dlsym(RTLD_NEXT, "ibv_query_device");
	rc = query ? query(context, attr) : ENOSYS;
	if (!rc && !refuses())
		attr->max_srq = attr->max_srq_wr = attr->max_srq_sge = 0;
	return rc;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	(void)pd, (void)attr;
	errno = EOPNOTSUPP;
	return NULL;
}
