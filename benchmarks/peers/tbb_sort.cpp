/* tbb::parallel_sort as sorts.h has it; it has no stable sort.
 *
 *     g++ -O3 -std=c++17 -shared -fPIC tbb_sort.cpp -o tbb_sort.so -ltbb
 */
#include <oneapi/tbb.h>
#include <oneapi/tbb/version.h>

namespace {

template <class Iterator, class Less>
bool sort_range(Iterator first, Iterator last, Less less, bool stable)
{
    static tbb::task_arena arena(2);
    if (stable) return false;
    arena.execute([&] { tbb::parallel_sort(first, last, less); });
    return true;
}

} // namespace

#include "sorts.h"

extern "C" const char* sort_version() { return TBB_VERSION_STRING; }
