// SPDX-License-Identifier: Apache-2.0
// Packs them as the executor will (execute/placed_allocator.cpp): each at the
// lowest place, the largest first, and what found none first in another try.
#include "lower/temporaries.h"

#include "base/error.h"
#include "program/live_bytes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace weft {
namespace {

constexpr int kEnd = std::numeric_limits<int>::max();
constexpr int kTries = 64;
// Above this number of temporaries only one order is tried, because placing
// them takes time that grows with the square of their number.
constexpr size_t kMany = 256;

struct Rectangle {
  int64_t offset = -1;
  int64_t bytes = 0;
  int begin = 0;
  int end = 0;
};

class Packing {
 public:
  Packing(const KernelMemory& memory, size_t next, int64_t next_bytes)
      : next_bytes_(aligned(next_bytes)) {
    for (const Temporary& each : memory.temporaries) {
      pieces_.push_back({-1, aligned(each.bytes), each.begin, each.end});
      exact_bytes_.push_back(each.bytes);
    }
    const int made = memory.results.empty() ? 0 : memory.results[next];
    // The result, at the end of the room.
    pieces_.push_back({-1, next_bytes_, next_bytes == 0 ? kEnd : made, kEnd});
  }

  // The most bytes at one moment, without the result's place.
  int64_t least() const {
    int64_t most = 0;
    for (const Rectangle& at : pieces_) {
      int64_t bytes = 0;
      for (const Rectangle& each : pieces_) {
        bytes += each.begin <= at.begin && at.begin < each.end ? each.bytes : 0;
      }
      most = std::max(most, bytes);
    }
    return std::max<int64_t>(0, most - next_bytes_);
  }

  int64_t all() const {
    int64_t bytes = 0;
    for (const Rectangle& each : pieces_) {
      bytes += each.bytes;
    }
    return bytes - next_bytes_;
  }

  // The end of the highest one, as they were placed last.
  int64_t end() const {
    int64_t last = 0;
    for (size_t i = 0; i + 1 < pieces_.size(); ++i) {
      last = std::max(last, pieces_[i].offset + exact_bytes_[i]);
    }
    return last;
  }

  // Places them all, or not.
  bool fits(int64_t room) {
    Rectangle& result = pieces_.back();
    std::vector<size_t> order(pieces_.size() - 1);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) {
      return pieces_[a].bytes > pieces_[b].bytes;
    });
    for (int tries = 0; tries < kTries; ++tries) {
      for (Rectangle& each : pieces_) {
        each.offset = -1;
      }
      result.offset = room;
      const auto left =
          std::find_if(order.begin(), order.end(), [&](size_t piece) {
            return !place(pieces_[piece], room + next_bytes_);
          });
      if (left == order.end()) {
        return true;
      }
      std::rotate(order.begin(), left, left + 1);
    }
    return false;
  }

 private:
  // At the lowest place beside what lives at the same time. Of a convolution of
  // many groups there are thousands, but few at once.
  bool place(Rectangle& piece, int64_t limit) const {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const Rectangle& other : pieces_) {
      if (&other != &piece && other.offset >= 0 && other.begin < piece.end &&
          piece.begin < other.end) {
        taken.emplace_back(other.offset, other.offset + other.bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    int64_t start = 0;
    for (const auto& [from, to] : taken) {
      if (start + piece.bytes <= from) {
        break;
      }
      start = std::max(start, to);
    }
    if (start + piece.bytes > limit) {
      return false;
    }
    piece.offset = start;
    return true;
  }

  const int64_t next_bytes_;
  // The last one is the result.
  std::vector<Rectangle> pieces_;
  std::vector<int64_t> exact_bytes_;
};

}  // namespace

int64_t room_bytes(
    const KernelMemory& memory, size_t next, int64_t next_bytes) {
  Packing packing(memory, next, next_bytes);
  const int64_t all = packing.all();
  if (memory.temporaries.size() > kMany) {
    WEFT_CHECK(packing.fits(all), "temporaries beyond the sum of their bytes");
    return next_bytes > 0 ? aligned(packing.end()) : packing.end();
  }
  int64_t room = packing.least();
  // In steps of a sixteenth of what there is between the two.
  const int64_t step = std::max(aligned((all - room) / 16), kAlignmentBytes);
  while (!packing.fits(room) && room < all) {
    room = std::min(all, room + step);
  }
  return next_bytes > 0 ? room : packing.end();
}

}  // namespace weft
