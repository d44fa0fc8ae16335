"""Mutants of pol_native."""

from tests.mutants.mutant import Mutant

_EMULATED = "tests/unit/pol/native/test_emulated.py"

MUTANTS = (
    Mutant(
        "library-unasked",
        "a library of kernels that computes wrongly is used",
        "pol/native/library.py",
        "            if answers(library) == KNOWN:\n",
        "            if answers(library):\n",
        ("tests/unit/pol/native/test_library.py",),
    ),
    Mutant(
        "processor-unasked",
        "a library is loaded whose instructions the processor lacks",
        "pol/native/library.py",
        "        if INSTRUCTION_SETS[name] & ~available:\n",
        "        if INSTRUCTION_SETS[name] & ~available & ~1:\n",
        ("tests/unit/pol/native/test_library.py",),
    ),
    Mutant(
        "bytes-not-put-right",
        "sums of bytes keep a part of what the right operand's were made larger by",
        "pol/native/narrow_x86.h",
        "            sums[r][c][0] = DO(set1_epi32)(-128 * begin[r]);\n",
        "            sums[r][c][0] = DO(set1_epi32)(-127 * begin[r]);\n",
        (_EMULATED,),
    ),
    Mutant(
        "bytes-of-another-row",
        "sums of bytes are put right by another row's sum where tiles are not as high as packs",
        "pol/native/narrow_product.c",
        "            memcpy(panels + (lane + i) / ROWS * panel + (lane + i) % ROWS * 4, &sums[i], 4);\n",
        "            memcpy(panels + (lane + i) / ROWS * panel + i % ROWS * 4, &sums[i], 4);\n",
        (_EMULATED,),
    ),
    Mutant(
        "split-too-low",
        "the lower halves of sums of 15 bits are known only where they are small",
        "pol/native/narrow_x86.h",
        "DO(slli_epi32)(high[r][c], 16)",
        "DO(slli_epi32)(high[r][c], 17)",
        (_EMULATED,),
    ),
)
