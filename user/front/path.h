/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths that two readers read in two ways: a route is chosen by a prefix of the path as it stands,
 * a backend may decode it, merge slashes and climb up dots first, and so be asked for what another
 * route guards.
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
 * Makes a plain path of one that is not: unreserved characters decoded, dots climbed, slashes
 * merged. `buf` has room for path.len bytes; *out lies in it. False where that cannot be done:
 * encoded slashes, backslashes and NULs, dots with parameters or that lead above the root.
 */
bool sl_path_normalise(struct sl_span path, uint8_t *buf, struct sl_span *out);

#endif
