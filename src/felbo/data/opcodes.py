"""Look through the opcodes of a pickle before it is loaded.

Python's unpickler allocates what a pickle asks for: a memo as long as its largest index, of up to
32 GB, and a bytearray before its bytes are read. A few nested tuples that refer to one another take
forever to hash. So only the opcodes of a batch are let through, and as many as a batch can have.
"""

import pickle

__all__ = ["MOST_OPCODES", "MOST_REFERENCES", "check_opcodes"]

# Several times those of the largest batch, the 50,000 images of CIFAR-100.
MOST_OPCODES = 1_000_000
# The published batches have none, those that numpy and Python write today a few.
MOST_REFERENCES = 16

# Bytes of the argument of an opcode.
_FIXED = {
    **dict.fromkeys(
        (
            *(pickle.MARK, pickle.STOP, pickle.POP, pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE),
            *(pickle.EMPTY_DICT, pickle.EMPTY_LIST, pickle.EMPTY_TUPLE),
            *(pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3),
            *(pickle.APPEND, pickle.APPENDS, pickle.SETITEM, pickle.SETITEMS),
            *(pickle.REDUCE, pickle.BUILD, pickle.STACK_GLOBAL, pickle.MEMOIZE),
        ),
        0,
    ),
    **dict.fromkeys((pickle.PROTO, pickle.BININT1, pickle.BINPUT, pickle.BINGET), 1),
    pickle.BININT2: 2,
    **dict.fromkeys((pickle.BININT, pickle.LONG_BINPUT, pickle.LONG_BINGET), 4),
    pickle.FRAME: 8,
}
# Bytes of the length that stands before the argument of an opcode.
_COUNTED = {
    **dict.fromkeys((pickle.SHORT_BINSTRING, pickle.SHORT_BINBYTES, pickle.SHORT_BINUNICODE), 1),
    **dict.fromkeys((pickle.BINSTRING, pickle.BINBYTES, pickle.BINUNICODE), 4),
}
_GETS = (pickle.BINGET, pickle.LONG_BINGET)


def check_opcodes(pickled: bytes) -> None:
    """Raise unless a pickle has the opcodes of a batch, and no more than a batch can have.

    Raises:
        pickle.UnpicklingError: Another opcode, too many of them, too large a memo, or no end.
    """
    place = references = 0
    for _ in range(MOST_OPCODES):
        code = pickled[place : place + 1]
        place += 1
        if code in _FIXED:
            end = place + _FIXED[code]
        elif code in _COUNTED:
            start = place + _COUNTED[code]
            end = start + int.from_bytes(pickled[place:start], "little")
        elif code == pickle.GLOBAL:
            # Module and name, each with the end of its line.
            end = pickled.find(b"\n", pickled.find(b"\n", place) + 1) + 1
        else:
            raise pickle.UnpicklingError(f"it has the opcode {code!r}, which no batch needs")
        if code == pickle.STOP:
            return
        if code == pickle.LONG_BINPUT:
            stored = int.from_bytes(pickled[place:end], "little")
            if stored > MOST_OPCODES:
                raise pickle.UnpicklingError(f"it stores a value at {stored:,} of its memo")
        references += code in _GETS
        if references > MOST_REFERENCES:
            raise pickle.UnpicklingError(f"it has more than {MOST_REFERENCES} references")
        # Also where a line has no end.
        if end < place or end >= len(pickled):
            raise pickle.UnpicklingError("it ends before its end is marked")
        place = end
    raise pickle.UnpicklingError(f"it has more than {MOST_OPCODES:,} opcodes")
