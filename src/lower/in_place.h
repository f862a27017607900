// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "program/program.h"

#include <cstdint>
#include <vector>

namespace weft {

// Bytes that the call of a node takes besides its results: PyTorch's kernel, or
// ours (weft.*), which may take others than eager PyTorch for the same.
int64_t call_scratch_bytes(const Function& function, const Node& node);

// Decides which results may lie in the storage of an operand, and keeps track
// of what is still read where. The block's instructions must not change while
// it lives.
class Reuse {
 public:
  explicit Reuse(Block& block);

  // The value that made the storage in which `value` lies, with what was
  // overwritten so far.
  ValueId storage(ValueId value) const;

  // Makes `result` lie in the storage of `operand` if that is right: the
  // operator reads before it writes (OpDef::in_place), both have one type and
  // fill their storages, and nobody reads the storage afterwards. False, and
  // nothing done, otherwise.
  bool overwrite(ValueId result, ValueId operand);

 private:
  Block& block_;
  // By value; links that `storage` follows.
  std::vector<ValueId> parent_;
  // By storage: the last instruction that touches it; the end for what is
  // returned or resident.
  std::vector<int64_t> last_touch_;
  // By value: the instruction that makes it, -1 for inputs.
  std::vector<int64_t> made_at_;
  // By value: one of several operands of a transfer, which must keep a storage
  // of its own.
  std::vector<bool> in_bucket_;
};

}  // namespace weft
