/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths that two readers read in two ways: a backend may decode a path, merge slashes and climb up
 * dots, or do none of that, and so be asked for what another route guards.
 *
 *   /public/../admin   /public/%2e%2e/admin   /public/..;x/admin   //admin   /public%2f..%2fadmin
 *   /%61dmin
 *
 * A plain path has nothing of that: no segment that is a dot or two (decoded, with or without
 * parameters), none that is empty but the last one, no slash or backslash or NUL in disguise, no
 * unreserved character (letters, digits, - . _ ~) that is encoded, and no % that does not begin two
 * hexadecimal digits (RFC 3986 2.1, 5.2.4, 6.2.2).
 *
 * Pure functions of bytes. What does not begin with a slash ("*" of OPTIONS) is plain.
 */
#ifndef SL_FRONT_PATH_H
#define SL_FRONT_PATH_H

#include <stdbool.h>
#include "base/bytes.h"

bool sl_path_is_plain(struct sl_span path);

/*
 * The two readings of a path that is passed on as it was sent. Both are decoded; `literal` keeps what
 * could be a slash or begin another encoding (%2F, %5C, %25, in capitals), and empty and dot segments.
 * `resolved` has these as slashes, slashes merged, dots climbed, as a server that maps paths to files
 * does. Where both lead to one route, all servers stay within it:
 *
 *   sent                  literal               resolved
 *   /@scope%2fpkg         /@scope%2Fpkg         /@scope/pkg
 *   /%7Euser//x           /~user//x             /~user/x
 *   /public/../admin      /public/../admin      /admin
 *   /public/..%2fadmin    (refused: what remains of `..` depends on what comes first)
 */
struct sl_path_readings {
	struct sl_span literal, resolved;
	bool climbs; /* it has a segment `..` */
};

/* Returns true if both readings are the path itself: no look at them is needed. */
bool sl_path_is_simple(struct sl_span path);
/*
 * Reads the path, whose first byte is a slash; both buffers have room for path.len bytes. Returns false
 * if it has no two readings that stand for all: it climbs above the root, or beside encoded or empty
 * segments; dots with parameters; NULs; a % that begins no encoding; bytes that are no UTF-8.
 */
bool sl_path_read(struct sl_span path, uint8_t *literal, uint8_t *resolved,
		  struct sl_path_readings *out);
/* Returns what stands behind the first `len` bytes of the literal reading, as it was sent. */
struct sl_span sl_path_behind(struct sl_span path, size_t len);

/*
 * Makes a plain path of one that is not: unreserved characters decoded, dots climbed, slashes
 * merged. `buf` has room for path.len bytes; *out lies in it. False where that cannot be done:
 * encoded slashes, backslashes and NULs, dots with parameters or that lead above the root.
 */
bool sl_path_normalise(struct sl_span path, uint8_t *buf, struct sl_span *out);

#endif
