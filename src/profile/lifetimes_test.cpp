// SPDX-License-Identifier: Apache-2.0
#include "profile/lifetimes.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

// y = relu(x w); loss = sum y; the gradient of w; SGD. Bytes:
//   x 4*8*4 = 128, w 8*2*4 = 64, h and y 4*2*4 = 32, loss 4,
//   ones 4 (its expansion to 4 x 2 is a view), dh 32, dw 64.
constexpr const char* kStep = R"(
graph @tiny
func @step {
  input %x : f32[4, 8] = batch "0"
  input %w : f32[8, 2] = parameter "w" trained
  input %lr : f32[] = scalar "lr"
forward:
  %h = aten.mm(%x, %w) : f32[4, 2]
  %y = aten.relu(%h) : f32[4, 2]
  %loss = aten.sum(%y) : f32[]
backward:
  %ones = aten.ones_like(%loss) : f32[]
  %dy = aten.expand(%ones, [4, 2]) : f32[4, 2]{0, 0}
  %dh = aten.threshold_backward(%dy, %y, 0) : f32[4, 2]
  %xt = aten.t(%x) : f32[8, 4]{1, 8}
  %dw = aten.mm(%xt, %dh) : f32[8, 2]
optimizer:
  %w.1 = weft.sgd(%w, %dw, %lr) : f32[8, 2]
  return loss = %loss
  return gradient "w" = %dw
  return parameter "w" = %w.1
}
)";

ValueId value(const Function& function, std::string_view name) {
  for (size_t i = 0; i < function.values.size(); ++i) {
    if (function.values[i].name == name) {
      return static_cast<ValueId>(i);
    }
  }
  ADD_FAILURE() << "no value " << name;
  return ValueId::None;
}

NodeId maker(const Function& function, std::string_view name) {
  return function[value(function, name)].node;
}

TEST(Lifetimes, WithoutReleasesEndWithTheLastUse) {
  const Graph graph = parse_graph(kStep, "<test>");
  const Function& step = step_of(graph);
  const Lifetimes found = lifetimes(step);
  EXPECT_FALSE(found.recorded);
  // x, w, lr, h, y, loss, ones, dh, dw: not the views dy and xt, not w.1.
  EXPECT_EQ(found.storages.size(), 9u);

  const Storage& h = found[value(step, "h")];
  EXPECT_EQ(h.bytes, 32);
  EXPECT_EQ(h.first, maker(step, "h"));
  EXPECT_EQ(h.last, maker(step, "y"));
  EXPECT_EQ(h.kind, StorageKind::Temporary);

  const Storage& y = found[value(step, "y")];
  EXPECT_EQ(y.last, maker(step, "dh"));
  EXPECT_EQ(y.kind, StorageKind::Activation);

  // The last use of a view is a use of what it lies in.
  EXPECT_EQ(found[value(step, "dy")].value, value(step, "ones"));
  EXPECT_EQ(found[value(step, "ones")].bytes, 4);
  EXPECT_EQ(found[value(step, "ones")].last, maker(step, "dh"));

  const Storage& dw = found[value(step, "dw")];
  EXPECT_EQ(dw.kind, StorageKind::Gradient);
  EXPECT_EQ(dw.last, NodeId::None);
}

TEST(Lifetimes, WhatComesInIsAliveAllTheTime) {
  const Graph graph = parse_graph(kStep, "<test>");
  const Function& step = step_of(graph);
  const Lifetimes found = lifetimes(step);
  for (const Input& input : step.inputs) {
    EXPECT_EQ(found[input.value].first, NodeId::None);
    EXPECT_EQ(found[input.value].last, NodeId::None);
  }
  EXPECT_EQ(found[value(step, "x")].kind, StorageKind::Input);
  EXPECT_EQ(found[value(step, "w")].kind, StorageKind::Parameter);
}

TEST(Lifetimes, AnUpdatedParameterStaysWhereItIs) {
  const Graph graph = parse_graph(kStep, "<test>");
  const Function& step = step_of(graph);
  const Lifetimes found = lifetimes(step);
  EXPECT_EQ(found[value(step, "w.1")].value, value(step, "w"));
}

TEST(Lifetimes, LiveBytesNodeByNode) {
  const Graph graph = parse_graph(kStep, "<test>");
  const Function& step = step_of(graph);
  // Always: x 128 + w 64 + lr 4 = 196.
  EXPECT_EQ(
      live_bytes(step, lifetimes(step)),
      (std::vector<int64_t>{
          196 + 32,               // h
          196 + 32 + 32,          // h y
          196 + 32 + 4,           // y loss
          196 + 32 + 4 + 4,       // y loss ones
          196 + 32 + 4 + 4,       // the same: a view
          196 + 32 + 4 + 4 + 32,  // y loss ones dh
          196 + 4 + 32,           // loss dh
          196 + 4 + 32 + 64,      // loss dh dw
          196 + 4 + 64,           // loss dw
      }));
}

TEST(Lifetimes, RecordedReleasesAreBelieved) {
  // h is kept longer than anyone reads it, through a view of it; y is never
  // given back; x is given back, which a batch never is.
  const Graph graph = parse_graph(
      R"(
graph @recorded
func @step {
  input %x : f32[4, 8] = batch "0"
forward:
  %h = aten.relu(%x) : f32[4, 8]
  %v = aten.t(%h) : f32[8, 4]{1, 8}
  %y = aten.relu(%v) : f32[8, 4]
  %z = aten.sum(%y) : f32[] release(%v, %x)
backward:
  %g = aten.ones_like(%z) : f32[]
  return loss = %z
}
)",
      "<test>");
  const Function& step = step_of(graph);
  const Lifetimes found = lifetimes(step);
  EXPECT_TRUE(found.recorded);
  EXPECT_EQ(found[value(step, "h")].last, maker(step, "z"));
  EXPECT_EQ(found[value(step, "h")].kind, StorageKind::Temporary);
  EXPECT_EQ(found[value(step, "y")].last, NodeId::None);
  EXPECT_EQ(found[value(step, "y")].kind, StorageKind::Activation);
  EXPECT_EQ(found[value(step, "x")].last, NodeId::None);
}

TEST(Lifetimes, AnInPlaceNodeMakesNoStorage) {
  const Graph graph = parse_graph(
      R"(
graph @in_place
func @step {
  input %x : f32[4] = batch "0"
forward:
  %h = aten.neg(%x) : f32[4]
  %y = aten.relu(%h) : f32[4] overwrites(%h)
  return loss = %y
}
)",
      "<test>");
  const Function& step = step_of(graph);
  const Lifetimes found = lifetimes(step);
  EXPECT_EQ(found.storages.size(), 2u);
  EXPECT_EQ(found[value(step, "y")].value, value(step, "h"));
  EXPECT_EQ(live_bytes(step, found), (std::vector<int64_t>{16 + 16, 16 + 16}));
}

TEST(Lifetimes, OfAnEmptyStep) {
  const Graph graph = parse_graph("graph @none func @step { }", "<test>");
  EXPECT_TRUE(lifetimes(step_of(graph)).storages.empty());
}

}  // namespace
}  // namespace weft
