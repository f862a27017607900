// SPDX-License-Identifier: Apache-2.0
#include "graph/mesh.h"

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "graph/most_ranks.h"

#include <unordered_set>

namespace weft {

int64_t rank_count(const Mesh& mesh) {
  int64_t count = 1;
  for (const Axis& axis : mesh.axes) {
    WEFT_CHECK(
        !__builtin_mul_overflow(count, axis.size, &count),
        "too many ranks for 64 bits");
  }
  return count;
}

int find_axis(const Mesh& mesh, const std::string& name) {
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.axes[i].name == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

int64_t ways(const Mesh& mesh, const std::vector<std::string>& axes) {
  int64_t count = 1;
  for (const std::string& axis : axes) {
    const int found = find_axis(mesh, axis);
    WEFT_CHECK(found >= 0, "no axis ", axis, " on ", print(mesh));
    count *= mesh.axes[static_cast<size_t>(found)].size;
  }
  return count;
}

bool divides(
    const Mesh& mesh, const std::vector<std::string>& axes, int64_t size) {
  for (const std::string& name : axes) {
    const int found = find_axis(mesh, name);
    WEFT_CHECK(found >= 0, "no axis ", name, " on ", print(mesh));
    const Axis& axis = mesh.axes[static_cast<size_t>(found)];
    if (axis.shares.empty() ? size % axis.size != 0 : size != axis.size) {
      return false;
    }
    size /= axis.size;
  }
  return true;
}

std::vector<int64_t> coordinates(const Mesh& mesh, int64_t rank) {
  WEFT_CHECK(
      rank >= 0 && rank < rank_count(mesh),
      "rank ",
      rank,
      " is not on the mesh ",
      print(mesh));
  std::vector<int64_t> out(mesh.axes.size());
  for (size_t i = mesh.axes.size(); i-- > 0;) {
    out[i] = rank % mesh.axes[i].size;
    rank /= mesh.axes[i].size;
  }
  return out;
}

std::string print(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const Axis& axis : mesh.axes) {
    std::vector<std::string> shares;
    for (const int64_t share : axis.shares) {
      shares.push_back(cat(share));
    }
    axes.push_back(
        shares.empty() ? cat(axis.name, "=", axis.size)
                       : cat(axis.name, "=", join(shares, ":")));
  }
  return cat("<", join(axes, ", "), ">");
}

namespace {

Axis parse_axis(Scanner& scanner) {
  Axis axis;
  axis.name = scanner.expect_word();
  scanner.expect("=");
  const std::string what = cat("the size of axis ", axis.name);
  constexpr IntegerRange kRange = {1, kMostMeshRanks};
  axis.size = expect_integer(scanner, what, kRange);
  if (scanner.take(":")) {
    axis.shares.push_back(axis.size);
    do {
      axis.shares.push_back(
          expect_integer(scanner, cat("a share of axis ", axis.name), kRange));
    } while (scanner.take(":"));
    axis.size = static_cast<int64_t>(axis.shares.size());
  }
  return axis;
}

}  // namespace

Mesh parse_mesh(Scanner& scanner) {
  Mesh mesh;
  scanner.expect("<");
  if (scanner.take(">")) {
    return mesh;
  }
  int64_t count = 1;
  do {
    const size_t mark = scanner.mark();
    mesh.axes.push_back(parse_axis(scanner));
    // Both are so small that their product is none too large to see.
    count *= mesh.axes.back().size;
    if (count > kMostMeshRanks) {
      scanner.fail_at(
          mark,
          cat("with axis ",
              mesh.axes.back().name,
              " the mesh has ",
              with_commas(count),
              " points, and the most are ",
              with_commas(kMostMeshRanks)));
    }
  } while (scanner.take(","));
  scanner.expect(">");
  return mesh;
}

Mesh parse_mesh(const std::string& text) {
  Scanner scanner(text, "<mesh>");
  Mesh mesh = parse_mesh(scanner);
  if (!scanner.at_end()) {
    scanner.fail_expected("the end of the mesh");
  }
  return mesh;
}

Mesh whole_mesh(const Mesh& mesh, const Mesh& time) {
  Mesh whole = mesh;
  whole.axes.insert(whole.axes.end(), time.axes.begin(), time.axes.end());
  return whole;
}

int64_t place_on(const Mesh& time, int64_t rank, int64_t part) {
  return rank * rank_count(time) + part;
}

void verify(const Mesh& mesh) {
  std::unordered_set<std::string> names;
  int64_t count = 1;
  for (const Axis& axis : mesh.axes) {
    WEFT_CHECK_USER(
        is_word(axis.name),
        "[mesh] an axis name must be letters, digits and '_': ",
        quote(axis.name));
    WEFT_CHECK_USER(
        names.insert(axis.name).second,
        "[mesh] two axes have the name ",
        axis.name);
    WEFT_CHECK_USER(
        axis.size > 0,
        "[mesh] axis ",
        axis.name,
        " must have a positive size, has ",
        axis.size);
    for (const int64_t share : axis.shares) {
      WEFT_CHECK_USER(
          share > 0,
          "[mesh] axis ",
          axis.name,
          ": every share is positive, found ",
          share);
    }
    WEFT_CHECK_USER(
        !__builtin_mul_overflow(count, axis.size, &count),
        "[mesh] more ranks than 64 bits can count");
  }
}

}  // namespace weft
