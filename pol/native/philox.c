/* Uniform numbers by Philox4x32-10 (pol/ops/philox.py): the upper 24 bits of each word. */

#include "exact.h"

#define ROUNDS 10

EXPORT void assay_uniform(uint64_t seed, uint32_t site, uint64_t step, float *RESTRICT result, int64_t n)
{
    for (int64_t block = 0; 4 * block < n; block++) {
        uint32_t c0 = (uint32_t)block, c1 = site, c2 = (uint32_t)step, c3 = (uint32_t)(step >> 32);
        uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
        for (int round = 0; round < ROUNDS; round++) {
            uint64_t first = (uint64_t)0xD2511F53u * c0, second = (uint64_t)0xCD9E8D57u * c2;
            c0 = (uint32_t)(second >> 32) ^ c1 ^ low;
            c1 = (uint32_t)second;
            c2 = (uint32_t)(first >> 32) ^ c3 ^ high;
            c3 = (uint32_t)first;
            low += 0x9E3779B9u;
            high += 0xBB67AE85u;
        }
        uint32_t words[4] = {c0, c1, c2, c3};
        int64_t left = n - 4 * block < 4 ? n - 4 * block : 4;
        for (int64_t i = 0; i < left; i++)
            result[4 * block + i] = (float)(words[i] >> 8) * 0x1p-24f;
    }
}
