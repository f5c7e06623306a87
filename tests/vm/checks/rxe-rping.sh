# kernel: stable
# timeout: 180
# Reliable connections work over soft-RoCE between two processes: rping with data verified, sends and writes timed.
set -euo pipefail
. tests/vm/guest/rxe-lib.sh

tests/vm/guest/rxe-up.sh
trap tests/vm/guest/rxe-down.sh EXIT

# -V checks each byte that comes back; 8000 bytes are more than one packet.
for size in 64 8000; do
    rxe_run_pair "rping -s -a $rxe_server -C 50 -V -S $size" \
                 "rping -c -a $rxe_server -I $rxe_client -C 50 -V -S $size"
done
for tool in ib_send_lat ib_write_lat; do
    rxe_run_pair "$tool -d rxe0 -x $(rxe_gid_index $rxe_server) -n 1000 -s 64 -F" \
                 "$tool -d rxe0 -x $(rxe_gid_index $rxe_client) -n 1000 -s 64 -F $rxe_server"
done
