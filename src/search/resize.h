// SPDX-License-Identifier: Apache-2.0
// Programs of a step for micro-batches of other sizes, without lowering it
// again.
//
// What lowering decides by sizes, it decides by comparing sums of bytes that
// grow evenly with the rows of a micro-batch. Of two such sums the one that is
// less for few rows and for many is less for all numbers of rows between. So
// where the programs for few and for many rows differ in sizes alone, the
// programs between them do, too, and their sizes lie evenly between.
#pragma once

#include "program/program.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weft {

// A program of one block, and for how many rows it is.
struct SizedProgram {
  int64_t rows = 0;
  Program program;
};

class ResizableProgram {
 public:
  // None when the two differ in more than sizes. Layouts, meshes and numbers
  // with fractions, which cost nothing, are not looked at and stay those of
  // `few`.
  static std::optional<ResizableProgram> between(
      const SizedProgram& few, const SizedProgram& many);

  // Nothing when a size would not be a whole number. The program changes with
  // the next call.
  const Program* at(int64_t rows);

 private:
  // A number of the program that is not the same for few and many rows.
  struct Size {
    int64_t* place = nullptr;
    int64_t few = 0;
    int64_t many = 0;
  };
  class Comparison;

  int64_t few_rows_ = 0;
  int64_t many_rows_ = 0;
  // Where `sizes_` point to.
  std::unique_ptr<Program> program_;
  std::vector<Size> sizes_;
};

}  // namespace weft
