/* __gnu_parallel::sort, of GCC's libstdc++, as sorts.h has it.
 *
 *     g++ -O3 -std=c++17 -fopenmp -shared -fPIC gnu_sort.cpp -o gnu_sort.so
 */
#include <parallel/algorithm>

namespace {

template <class Iterator, class Less>
bool sort_range(Iterator first, Iterator last, Less less, bool stable)
{
    if (stable)
        __gnu_parallel::stable_sort(first, last, less, __gnu_parallel::default_parallel_tag(2));
    else
        __gnu_parallel::sort(first, last, less, __gnu_parallel::default_parallel_tag(2));
    return true;
}

} // namespace

#include "sorts.h"

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)

extern "C" const char* sort_version() { return "libstdc++ " TEXT_OF(__GNUC__); }
