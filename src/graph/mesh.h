// SPDX-License-Identifier: Apache-2.0
// Vocabulary, the same in C++, Python, CLI, JSON and docs: axis = of the mesh;
// dim = of a tensor; rank = a process; stage = of a pipeline; step = one
// optimizer step; micro-batch, slice = splits over time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

class Scanner;

struct Axis {
  std::string name;
  int64_t size = 1;
  // How much of a dim each point gets, relative to the others; empty: all
  // alike. Printed `slice=3:2:1`, which has size 3.
  std::vector<int64_t> shares = {};

  bool operator==(const Axis&) const = default;
};

// Ranks arranged on named axes, the last axis varying fastest:
// `<data=2, tensor=4>` is 8 ranks.
struct Mesh {
  std::vector<Axis> axes;

  bool operator==(const Mesh&) const = default;
};

int64_t rank_count(const Mesh& mesh);
// Index into `axes`, or -1.
int find_axis(const Mesh& mesh, const std::string& name);
// How many ranks the axes tell apart. All of them must be on the mesh.
int64_t ways(const Mesh& mesh, const std::vector<std::string>& axes);
// Whether the axes, outermost first, cut that many elements into pieces of one
// size.
bool divides(
    const Mesh& mesh, const std::vector<std::string>& axes, int64_t size);
// The coordinate of a rank on every axis.
std::vector<int64_t> coordinates(const Mesh& mesh, int64_t rank);

// The axes of the mesh, then axes of time: all that layouts may speak of. A
// rank at point `part` of time is at place_on(...) there.
Mesh whole_mesh(const Mesh& mesh, const Mesh& time);
int64_t place_on(const Mesh& time, int64_t rank, int64_t part);

std::string print(const Mesh& mesh);
// Parses exactly one mesh; throws UserError.
Mesh parse_mesh(const std::string& text);
// Parses a mesh that stands inside a larger text.
Mesh parse_mesh(Scanner& scanner);
// Axis names unique and well-formed, sizes and shares positive. Throws
// UserError.
void verify(const Mesh& mesh);

}  // namespace weft
