// SPDX-License-Identifier: Apache-2.0
// ctc_loss as operators of ours whose sizes do not depend on lengths
// (ops/ctc.cpp), with gradients: what a recorder writes down of it.
#pragma once

#include "capture/call_stack.h"

#include <ATen/core/Tensor.h>

namespace weft {

// Makes weft::ctc_targets, weft::ctc_loss and weft::ctc_loss_backward known to
// the dispatcher, once in a process.
void install_ctc_ops();

// What aten::ctc_loss returns for these arguments, by the operators above.
// Lengths in tensors stay tensors, and other lengths become constants. Throws
// c10::Error with PyTorch's words where shapes or types do not fit; the lengths
// themselves are looked at when the step runs.
at::Tensor ctc_loss_by_tensors(const Arguments& arguments);

}  // namespace weft
