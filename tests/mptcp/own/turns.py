"""The built-in round-robin, once more: the same connections come of it, to the last segment."""

import weft_block as weft

MANIFEST = """
name = "turns"
version = "1"
summary = "each in turn"
[scheduler]
"""


class Turns(weft.Block):
    def schedule(self, question):
        backup = min(each.backup for each in question.subflows)
        free = [each for each in question.subflows if each.backup == backup and each.room_bytes]
        if not free:
            return None
        chosen = next((each for each in free if each.index >= question.memory[0]), free[0])
        question.memory[0] = chosen.index + 1
        return chosen, chosen.mss_bytes - chosen.mapping_bytes
