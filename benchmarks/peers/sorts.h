/* What the sorting peers in C++ share: a table of the types of items.
 *
 *     int sort_items(const char* dtype, void* items, size_t n, int stable)
 *
 * sorts n items in place by two threads; 1 when it does not have them.  A peer defines
 * sort_range(first, last, less, stable), which says whether it can.
 */
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string_view>

namespace {

struct complex128 {
    double re, im;

    bool operator<(const complex128& other) const
    {
        return re < other.re || (re == other.re && im < other.im);
    }
};

struct bytes16 {
    char at[16];

    bool operator<(const bytes16& other) const { return std::memcmp(at, other.at, 16) < 0; }
};

struct text8 {
    std::uint32_t at[8];

    bool operator<(const text8& other) const
    {
        for (int i = 0; i < 7; i++)
            if (at[i] != other.at[i]) return at[i] < other.at[i];
        return at[7] < other.at[7];
    }
};

template <class Item> int sort_as(void* items, std::size_t n, bool stable)
{
    Item* first = static_cast<Item*>(items);
    return sort_range(first, first + n, std::less<Item>(), stable) ? 0 : 1;
}

} // namespace

extern "C" int sort_items(const char* dtype, void* items, std::size_t n, int stable)
{
    static constexpr struct {
        std::string_view name;
        int (*sort)(void*, std::size_t, bool);
    } table[] = {
        {"bool", sort_as<std::uint8_t>},    {"uint8", sort_as<std::uint8_t>},
        {"int8", sort_as<std::int8_t>},     {"int16", sort_as<std::int16_t>},
        {"int32", sort_as<std::int32_t>},   {"int64", sort_as<std::int64_t>},
        {"float32", sort_as<float>},        {"float64", sort_as<double>},
        {"complex128", sort_as<complex128>}, {"S16", sort_as<bytes16>},
        {"U8", sort_as<text8>},
    };
    for (const auto& entry : table)
        if (entry.name == dtype) return entry.sort(items, n, stable != 0);
    return 1;
}
