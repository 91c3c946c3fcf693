// Threads that wait for work without spinning, one set for the whole process.
#pragma once

#include <cstdint>
#include <functional>

namespace colrank {

// Calls work(begin, end) until [0, items) is covered, in pieces of `piece` that threads take as they come
// free; the calling thread works too. Safe from several threads at once. `work` must not throw.
void parallel(std::int64_t items, std::int64_t piece, std::function<void(std::int64_t, std::int64_t)> const& work);

int threads();
void set_threads(int count);  // from the next piece of work on; at least 1

}  // namespace colrank
