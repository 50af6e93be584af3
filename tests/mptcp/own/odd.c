/* A scheduler that does one odd thing, from its HOW_MANYth question on. */

#include "weft-block.h"

WEFT_BLOCK("name = \"odd\"\nversion = \"1\"\nsummary = \"does one odd thing\"\n[scheduler]\n"
           "[[parameter]]\nname = \"what\"\ntype = \"choice\"\n"
           "words = [\"far\", \"nobody\", \"none\", \"ahead\", \"behind\", \"trap\", \"loop\", \"memory\"]\n"
           "default = \"far\"\ndoc = \"which\"\n"
           "[[parameter]]\nname = \"after\"\ntype = \"unsigned\"\ndefault = 0\ndoc = \"so many questions\"\n")

enum { FAR, NOBODY, NONE, AHEAD, BEHIND, TRAP, LOOP, MEMORY };

static uint64_t values[2];
void *weft_block_new(void) { return values; }
void weft_block_set(void *self, uint32_t parameter, const weft_value *value) { (void)self; if (parameter < 2) values[parameter] = value->number; }

int32_t weft_block_schedule(void *self, weft_question *question, const weft_subflow *subflows, uint32_t count) {
    volatile uint64_t spins = 0;
    (void)self;
    if (question->memory[0]++ < values[1]) {
        /* Like a sound one: whoever has room, a segment at a time. */
        for (uint32_t at = 0; at < count; at++) {
            question->bytes = 1400;
            if (subflows[at].room_bytes > 0) return (int32_t)at;
        }
        return -1;
    }
    question->bytes = 1400;
    switch (values[0]) {
    case FAR: return (int32_t)count;
    case NOBODY: return -1;
    case NONE: question->bytes = 0; return 0;
    case AHEAD: question->from = question->next + 1; return 0;
    case BEHIND: question->from = question->una - 1; return 0;
    case TRAP: __builtin_trap();
    case LOOP: for (;;) spins++;
    default: return (int32_t)(uintptr_t)__builtin_wasm_memory_grow(0, 4096);
    }
}
