// SPDX-License-Identifier: Apache-2.0
// The memory of one rank. What stays from step to step lies in the resident
// region, each tensor under a name, so that the programs for several shapes of
// batch share it; everything else lies in the step region, where every program
// has its own offsets and only one runs at a time.
#pragma once

#include "graph/tensor_type.h"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace weft {

class Arena {
 public:
  // Memory is taken from the system when it is first touched, and never more
  // than `budget_bytes` of it; 0: as much as the machine has.
  explicit Arena(int64_t budget_bytes = 0);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // The tensor of that name; zeros when it is new. Throws UserError when it is
  // there with another type, or does not fit.
  at::Tensor resident(const std::string& name, const TensorType& type);
  bool has_resident(const std::string& name) const;
  // It must be there.
  TensorType type_of_resident(const std::string& name) const;

  // The start of the step region, which never moves, once it holds `bytes`.
  // Throws UserError when that does not fit beside what is resident.
  std::byte* step_region(int64_t bytes);

  int64_t resident_bytes() const { return resident_bytes_; }
  // The most that any program asked of the step region.
  int64_t step_bytes() const { return step_bytes_; }
  int64_t budget_bytes() const { return budget_bytes_; }

 private:
  void check_fits(int64_t resident, int64_t step, const std::string& what);

  const int64_t budget_bytes_;
  int64_t limit_bytes_ = 0;
  std::byte* resident_ = nullptr;
  std::byte* step_ = nullptr;
  int64_t resident_bytes_ = 0;
  int64_t step_bytes_ = 0;
  std::map<std::string, at::Tensor> tensors_;
};

// A tensor of that type over memory that somebody else keeps.
at::Tensor tensor_over(std::byte* memory, const TensorType& type);

}  // namespace weft
