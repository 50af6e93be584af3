/* The built-in lowest-rtt, once more: the same connections come of it, to the last segment. */

#include "weft-block.h"

WEFT_BLOCK("name = \"lowest\"\nversion = \"1\"\nsummary = \"the shortest round trip\"\n[scheduler]\n")

static int only;
void *weft_block_new(void) { return &only; }

int32_t weft_block_schedule(void *self, weft_question *question, const weft_subflow *subflows, uint32_t count) {
    (void)self;
    uint32_t backup = 1;
    for (uint32_t at = 0; at < count; at++) backup &= subflows[at].backup;
    int32_t best = -1;
    for (uint32_t at = 0; at < count; at++) {
        if (subflows[at].backup != backup || subflows[at].room_bytes == 0) continue;
        if (best < 0 || subflows[at].rtt_ns < subflows[best].rtt_ns) best = (int32_t)at;
    }
    if (best >= 0) question->bytes = subflows[best].room_bytes;
    return best;
}
