// SPDX-License-Identifier: Apache-2.0
// All ranks of a program in this process, without wires: what the program
// computes, and whether its plan is exact. Small steps only: every rank's
// tensors are in memory at once.
#pragma once

#include "execute/kernel.h"
#include "program/program.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace weft {

// The program is of `step`. `inputs` are whole, in the order of the step's;
// undefined for a constant of the program. Gives the whole outputs in the
// step's order. Every
// result is compared with its type in the program, and ranks that hold the same
// piece of an output must agree to the last bit. Throws UserError that names
// rank and instruction.
std::vector<at::Tensor> run_lockstep(
    const Program& program,
    const Function& step,
    const std::vector<at::Tensor>& inputs,
    const StepContext& context);

}  // namespace weft
