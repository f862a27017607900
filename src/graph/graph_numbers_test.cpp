// SPDX-License-Identifier: Apache-2.0
#include "base/test_numbers.h"
#include "graph/graph.h"
#include "graph/layout.h"
#include "graph/mesh.h"

namespace weft {
namespace {

TEST(GraphNumbers, OfAMesh) {
  expect_bounded_numbers(
      "<data=2, slice=3:2:1, tensor=4>",
      {"<mesh>:1:", "[mesh]"},
      [](const std::string& text) {
        const Mesh mesh = parse_mesh(text);
        verify(mesh);
        EXPECT_EQ(parse_mesh(print(mesh)), mesh);
        EXPECT_GE(rank_count(mesh), 1);
      });
}

TEST(GraphNumbers, OfALayout) {
  const Mesh mesh = parse_mesh("<data=2, tensor=2>");
  const TensorType type = parse_type("f32[12, 6]");
  expect_bounded_numbers(
      "[(data:4 3), tensor:6]",
      {"<layout>:1:", "[layout]"},
      [&](const std::string& text) {
        const Layout layout = parse_layout(text);
        verify(layout, type, mesh);
        verify(canonical(layout, type, mesh), type, mesh);
      });
}

TEST(GraphNumbers, OfTypes) {
  for (const char* text : {"f32[8, 16]", "f64[4, 2]{1, 4}", "i64[3]{2}"}) {
    expect_bounded_numbers(text, {"<type>:1:"}, [](const std::string& changed) {
      const TensorType type = parse_type(changed);
      EXPECT_EQ(parse_type(print(type)), type);
      EXPECT_GE(element_count(type), 0);
      EXPECT_GE(storage_bytes(type), 0);
      EXPECT_EQ(strides_of(type).size(), type.sizes.size());
    });
  }
}

TEST(GraphNumbers, OfAGraph) {
  expect_bounded_numbers(
      R"(graph @g

constant %steps : i64[2] = hex "01000000000000000200000000000000"

func @step {
  input %x : f32[2, 8] = batch "0"
  input %w : f32[8, 3]{1, 8} = parameter "w" trained
forward:
  %h = aten.mm(%x, %w) : f32[2, 3]
  %v = aten.view(%h, [6]) : f32[6]
  %d = aten.dropout(%v, 0.5, true) : f32[6]
  return loss = %d
}
)",
      {"g:", "[graph]"},
      [](const std::string& text) {
        const Graph graph = parse_graph(text, "g");
        verify(graph);
        // NaN equals nothing.
        EXPECT_EQ(print(parse_graph(print(graph), "again")), print(graph));
      });
}

}  // namespace
}  // namespace weft
