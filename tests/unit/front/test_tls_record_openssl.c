/* SPDX-License-Identifier: Apache-2.0 */
/* Records by OpenSSL's EVP, whichever library the build has: its functions replace the archive's. */
#include "front/tls/aead_openssl.c"
/* The tests themselves. */
#include "test_tls_record.c"
